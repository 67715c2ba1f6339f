import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { readModelChoices, saveModelChoices } from '../../src/config/models-file.ts';
import { SvcError } from '../../src/errors.ts';
import { CONFIG_BYTES_MAX } from '../../src/limits.ts';

/** Files that only svc writes. */
const test = suite<{ home: string }>('own files');

test.before.each((context) => {
  context.home = mkdtempSync(join(tmpdir(), 'svc-own-file-'));
});
test.after.each(({ home }) => rmSync(home, { recursive: true }));

test('what no daemon could read again is refused, and the file stays', async ({ home }) => {
  const config = join(home, 'config.json');
  const save = (name: string, system: string) =>
    saveModelChoices(config, ({ presets, ...choices }) => ({
      ...choices,
      presets: { ...presets, [name]: { system } },
    }));
  const half = 'x'.repeat(CONFIG_BYTES_MAX / 2);
  await save('first', half);
  const before = readFileSync(join(home, 'models.json'), 'utf8');
  const thrown = await save('second', half).catch((error: unknown) => error);
  assert.instance(thrown, SvcError);
  assert.is((thrown as SvcError).code, 'invalid_request');
  assert.is(readFileSync(join(home, 'models.json'), 'utf8'), before);
  assert.not(readdirSync(home).includes('models.json.new'));
  assert.equal(Object.keys(readModelChoices(config).presets), ['first']);
});

test('a link stays a link, also one that leads to no file yet', async ({ home }) => {
  const config = join(home, 'config.json');
  const dotfiles = join(home, 'dotfiles');
  mkdirSync(dotfiles);
  symlinkSync(join('dotfiles', 'models.json'), join(home, 'models.json'));
  const setDefault = (name: string) =>
    saveModelChoices(config, (choices) => ({ ...choices, default: name }));
  for (const name of ['first', 'second']) {
    await setDefault(name);
    assert.ok(lstatSync(join(home, 'models.json')).isSymbolicLink(), name);
    assert.is(JSON.parse(readFileSync(join(dotfiles, 'models.json'), 'utf8')).default, name);
  }
  assert.equal(readdirSync(dotfiles), ['models.json']);
});

test.run();
