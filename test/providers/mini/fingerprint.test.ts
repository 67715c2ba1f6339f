import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { commands, globalFlags } from '../../../src/cli/commands.ts';
import { fingerprint } from '../../../src/providers/mini/fingerprint.ts';
import { modelFile } from '../../eval/ask.ts';

const recorded = JSON.parse(await readFile(new URL('../../../src/providers/mini/fingerprint.json', import.meta.url), 'utf8')) as {
  commands: string;
  sha256: string;
};

test('the model was made from the commands and flags of today', () => {
  assert.is(fingerprint(commands, globalFlags), recorded.commands, 'commands changed: make svc-mini again, see src/providers/mini/README.md');
});

test('the model file is the one that was recorded', async () => {
  assert.is(
    createHash('sha256')
      .update(await readFile(modelFile))
      .digest('hex'),
    recorded.sha256,
  );
});

test('a new flag or command changes the fingerprint, their order does not', () => {
  const [first, ...rest] = commands;
  assert.ok(first);
  assert.is.not(fingerprint([{ ...first, flags: [...first.flags, { name: 'new' }] }, ...rest], globalFlags), recorded.commands);
  assert.is.not(fingerprint([...commands, { name: 'new', flags: [] }], globalFlags), recorded.commands);
  assert.is(fingerprint([...rest, first], globalFlags), fingerprint(commands, globalFlags));
});

test.run();
