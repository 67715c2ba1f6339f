import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { loadConfig } from '../../src/config/config.ts';
import { outdatedNames } from '../../src/config/renamed.ts';
import { findSetting } from '../../src/config/setting-keys.ts';
import { defaultLimits, fixedLimits, limitSpecs } from '../../src/limits.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-limits-'));
const file = join(folder, 'config.json');
test.after(() => rmSync(folder, { recursive: true, force: true }));

function load(limits: object, env: NodeJS.ProcessEnv = {}) {
  writeFileSync(file, JSON.stringify({ limits }));
  return loadConfig(file, { env });
}

test('a test names each limit that users can set', () => {
  const text = globSync('test/**/*.ts')
    .map((path) => readFileSync(path, 'utf8'))
    .join('\n');
  const unnamed = Object.keys(limitSpecs).filter(
    (name) =>
      !new RegExp(`\\b${name}: |\\b${name}\\b.*(=|limits)|LIMIT_${name.toUpperCase()}\\b`).test(
        text,
      ),
  );
  assert.equal(unnamed, [], 'write a test in which the limit is reached');
});

test('a hint to raise a limit names one that users can set', () => {
  const hints = globSync('src/**/*.ts').flatMap((path) => [
    ...readFileSync(path, 'utf8').matchAll(/raise the limit ([a-z_]+_[a-z_]+|[a-z]+)\.'/g),
  ]);
  const names = hints.map(([, name = '']) => name);
  assert.ok(names.length > 5);
  assert.equal(
    names.filter((name) => !(name in limitSpecs)),
    [],
    'correct the hint, or add the limit to src/limits.ts',
  );
});

test('a removed limit is accepted, has no effect, and is reported with what to do', () => {
  for (const name of [...Object.keys(fixedLimits), 'goodbye_ms', 'picture_runs', 'run_parts']) {
    // Also a value that no limit could have.
    const config = load({ [name]: 'many' });
    assert.equal(config.limits, defaultLimits);
    assert.equal(config.removed, [`limits.${name}`]);
    assert.not.ok(`limits.${name}` in config.sources);
    const variable = `SVC_LIMIT_${name.toUpperCase()}`;
    const other = load({ queue_runs: 3 }, { [variable]: '7' });
    assert.equal(other.limits, { ...defaultLimits, queue_runs: 3 });
    assert.equal(other.removed, [variable]);
    assert.is(findSetting(`limits.${name}`), null);
  }
});

test('old names and removed limits are reported together', () => {
  assert.is(outdatedNames(load({ queue_runs: 3 })), null);
  writeFileSync(file, JSON.stringify({ engine_together: true, limits: { page_bytes: 5 } }));
  const outdated = outdatedNames(loadConfig(file, { env: {} }));
  assert.equal(outdated, {
    detail:
      'old names: engine_together; and limits that have no effect any more: limits.page_bytes',
    hint: 'Use the new names: engine_batching. Remove limits.page_bytes: svc uses its own value.',
  });
});

test.run();
