import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type Config, loadConfig } from '../../src/config/config.ts';
import { renamedSettings } from '../../src/config/renamed.ts';
import { settingSpecs } from '../../src/config/settings.ts';
import { limitSpecs } from '../../src/limits.ts';

const home = mkdtempSync(join(tmpdir(), 'svc-renamed-'));
const file = join(home, 'config.json');
test.after(() => rmSync(home, { recursive: true, force: true }));

function load(settings: object, env: NodeJS.ProcessEnv = {}): Config {
  writeFileSync(file, JSON.stringify(settings));
  return loadConfig(file, { env });
}

function nest(key: string, value: unknown): object {
  return key.split('.').reduceRight<unknown>((inner, name) => ({ [name]: inner }), value) as object;
}

function settingOf(config: Config, key: string): unknown {
  return key
    .split('.')
    .reduce<unknown>((at, name) => (at as Record<string, unknown>)[name], config);
}

for (const { was, key, env } of renamedSettings) {
  const isLimit = key.startsWith('limits.');
  const other = isLimit ? limitSpecs[key.slice(7) as keyof typeof limitSpecs].min : true;

  test(`${was} in the file sets ${key}`, () => {
    const config = load(nest(was, other));
    assert.is(settingOf(config, key), other);
    assert.is(config.sources[key], 'file');
    assert.equal(
      config.renamed.map((setting) => setting.was),
      [was],
    );
  });

  test(`${env} sets ${key}`, () => {
    const config = load({}, { [env]: String(other) });
    assert.is(settingOf(config, key), other);
    assert.is(config.sources[key], 'environment');
    assert.is(config.renamed.length, 1);
  });

  test(`${was} and ${key} together are refused`, () => {
    const both = { ...nest(was, other), ...nest(key, other) };
    const name = was.split('.').at(-1) ?? '';
    const limits = isLimit ? { limits: { [name]: other, [key.slice(7)]: other } } : both;
    assert.throws(() => load(limits), `${key} is set twice, once by its old name`);
    const current = isLimit
      ? `SVC_LIMIT_${key.slice(7).toUpperCase()}`
      : settingSpecs[key as keyof typeof settingSpecs].env;
    const env_both = { [env]: String(other), [current]: String(other) };
    assert.throws(() => load({}, env_both), `${key} is set twice, also by ${current}`);
  });
}

test('a configuration with new names has nothing to rename', () => {
  assert.equal(load({ engine_batching: true }).renamed, []);
});

test('an old name is checked like a new one', () => {
  assert.throws(() => load({ engine_together: 1 }), 'engine_batching must be');
});

test.run();
