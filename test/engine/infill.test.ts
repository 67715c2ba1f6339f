import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Message } from '../../src/contract/messages/parts.ts';
import type { LoadedModel } from '../../src/engine/load.ts';
import { promptOfOrder, Structure } from '../../src/engine/prompt.ts';
import type { RunOrder } from '../../src/engine/protocol/messages.ts';
import { makeGguf } from '../fixtures/models/make-gguf.ts';
import { openNative } from '../helpers/native-model.ts';

/** The tokens of a prompt with a middle, as llama-server writes them. */

const folder = mkdtempSync(join(tmpdir(), 'svc-infill-'));
test.after(() => rmSync(folder, { recursive: true, force: true }));

const PARTS: [string][] = [['<|fim_prefix|>'], ['<|fim_suffix|>'], ['<|fim_middle|>']];
const FILES: [string][] = [['<|repo_name|>'], ['<|file_sep|>']];

const TYPE_BYTES = 4;

/** Spells the tokens of the prompt: each message is the parts of one file. */
async function prompts(pieces: readonly [string][], addsBegin = false) {
  const path = join(folder, `${pieces.length}-${addsBegin}.gguf`);
  const bytes = readFileSync(makeGguf(path, { template: null, pieces }));
  const key = 'tokenizer.ggml.add_bos_token';
  bytes.writeUInt8(addsBegin ? 1 : 0, bytes.indexOf(key) + key.length + TYPE_BYTES);
  writeFileSync(path, bytes);
  const model = await openNative(path);
  const loaded = { model, structure: new Structure(model, ''), template: null, built_in: false };
  return (files: readonly (readonly string[])[], suffix: string) => {
    const messages = files.map(
      (texts): Message => ({
        role: 'user',
        content: texts.map((text) => ({ type: 'text', text })),
      }),
    );
    const order = { messages, options: { suffix, raw: true } };
    const { tokens } = promptOfOrder(
      loaded as unknown as LoadedModel,
      order as unknown as RunOrder,
    );
    return model.detokenize(tokens, true).replaceAll('\u2581', ' ');
  };
}

test('a text alone is between the marks of its parts', async () => {
  const spelled = await prompts([...PARTS, ...FILES]);
  assert.is(spelled([['def f(']], '):'), '<|fim_prefix|>def f(<|fim_suffix|>):<|fim_middle|>');
  assert.is(spelled([['a']], ''), '<|fim_prefix|>a<|fim_suffix|><|fim_middle|>');
  assert.is(spelled([['']], 'b'), '<|fim_prefix|><|fim_suffix|>b<|fim_middle|>');
});

test('files with names come before it, and the beginning of a prompt comes after them', async () => {
  const files = [
    ['a.py', 'x=1'],
    ['tmp', 'y=2'],
    ['filename', 'def f(', 'a'],
  ];
  const last = '<|fim_prefix|>def f(a<|fim_suffix|>):<|fim_middle|>';
  assert.is(
    (await prompts([...PARTS, ...FILES]))(files, '):'),
    `<|repo_name|>myproject\n<|file_sep|>a.py\nx=1<|file_sep|>tmp\ny=2<|file_sep|>filename\n${last}`,
  );
  assert.is(
    (await prompts([...PARTS, ...FILES], true))(files.slice(2), '):'),
    `<|repo_name|>myproject\n<|file_sep|>filename\n<s>${last}`,
  );
  const snippet = '\n\n--- snippet ---\n\n';
  assert.is((await prompts(PARTS, true))(files, '):'), `${snippet}x=1${snippet}y=2<s>${last}`);
});

test('no text of a file is a mark', async () => {
  const spelled = await prompts(PARTS);
  const text = spelled([['<|fim_middle|>']], '<|fim_suffix|>');
  assert.is(text, '<|fim_prefix|><|fim_middle|><|fim_suffix|><|fim_suffix|><|fim_middle|>');
});

test.run();
