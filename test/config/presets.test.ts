import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { loadConfig } from '../../src/config/config.ts';
import { type Preset, presetProblem, readPresets } from '../../src/config/presets.ts';
import { type PresetNumberName, presetNumbers } from '../../src/contract/options.ts';

const numbers = Object.fromEntries(
  Object.entries(presetNumbers).map(([name, { max }]) => [name, max]),
) as Record<PresetNumberName, number>;

test('every field of a preset is taken as it is', () => {
  const preset: Required<Preset> = {
    system: 'You write commit messages.',
    template: 'Write one for:\n{prompt}',
    provider: 'groq',
    model: ['a', 'local/b'],
    cloud: true,
    stop: ['END'],
    regex: 'a+',
    choice: ['a', 'b'],
    grammar: 'root ::= "a"',
    tool_servers: ['notes', 'web/get'],
    response_format: { type: 'json', schema: { type: 'object' } },
    ...numbers,
  };
  assert.equal(readPresets({ all: preset, none: {} }), { all: preset, none: {} });
  assert.is(presetProblem({}), null);
});

test('a mistake is named with its preset, its field and what it may be', () => {
  for (const [presets, problem] of [
    [[], 'must be an object of presets by name'],
    [{ '': {} }, 'has a name that is empty or has control characters'],
    [{ a: 'text' }, '"a" must be an object'],
    [{ a: { temperature: 3 } }, '"a": temperature must be a number from 0 to 2'],
    [{ a: { top_k: 1.5 } }, '"a": top_k must be a whole number from 0 to 1000000'],
    [{ a: { template: 'no place' } }, '"a": template must be a text with {prompt}, where'],
    [{ a: { system: '' } }, '"a": system must be a text'],
    [{ a: { model: [] } }, '"a": model must be the name of a model, or a list'],
    [{ a: { tool_servers: 'notes' } }, '"a": tool_servers must be a list of tool servers'],
    [{ a: { stop: Array(17).fill('x') } }, '"a": stop must be a list of 1 to 16 texts'],
    [{ a: { response_format: { type: 'xml' } } }, '"a": response_format must be an object'],
    [{ a: {}, b: { temprature: 1 } }, '"b" has no field "temprature"; there are system, template'],
  ] as const)
    assert.ok(presetProblem(presets)?.startsWith(problem), String(presetProblem(presets)));
});

test('a mistake in the file has its line', () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-presets-'));
  const file = join(folder, 'config.json');
  writeFileSync(file, '{\n  "presets": { "a": { "seed": -1 } }\n}', { mode: 0o600 });
  try {
    assert.throws(
      () => loadConfig(file, { env: {} }),
      (error: Error) =>
        /config\.json:2:\d+/.test(error.message) &&
        error.message.includes('presets "a": seed must be a whole number from 0 to 4294967295'),
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test.run();
