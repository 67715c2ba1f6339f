import { stat } from 'node:fs/promises';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { metadataOf, modelFile } from '../../eval/ask.ts';

const metadata = await metadataOf(modelFile);

test('the file has at most 6 MB', async () => {
  const { size } = await stat(modelFile);
  assert.ok(size <= 6_000_000, `${size} bytes`);
});

test('the file describes itself', () => {
  assert.is(metadata['general.architecture'], 'llama');
  assert.is(metadata['general.name'], 'svc-mini');
  assert.is(metadata['general.license'], 'MIT');
  assert.is(metadata['general.author'], 'svc');
  assert.is(metadata['general.organization'], 'svc');
  assert.match(String(metadata['general.size_label']), /^\d+(\.\d+)?M$/);
  assert.match(String(metadata['general.description']), /built into svc/);
  assert.is(metadata['svc.builtin'], true);
});

test('the file has its chat template and context', () => {
  assert.match(String(metadata['tokenizer.chat_template']), /<\|assistant\|>/);
  assert.is(Number(metadata['llama.context_length']), 512);
});

test('the topic of an answer is a control token: no text can contain it, and no answer shows it', () => {
  const [pieces, types] = ['tokenizer.ggml.tokens', 'tokenizer.ggml.token_type'].map(
    (key) => metadata[key] as unknown[],
  );
  const control = 3;
  const topics =
    pieces?.flatMap((piece, token) =>
      String(piece).startsWith('<|about ') ? [types?.[token]] : [],
    ) ?? [];
  assert.ok(topics.length > 200, `${topics.length} topics`);
  assert.ok(topics.every((type) => type === control));
});

test('the file has the rule that replaces unsure answers', () => {
  const tokens = Number(metadata['svc.confidence.tokens']);
  const minimum = Number(metadata['svc.confidence.minimum']);
  assert.ok(Number.isInteger(tokens) && tokens > 0 && tokens <= 32);
  assert.ok(minimum > 0 && minimum < 1);
  assert.match(String(metadata['svc.confidence.fallback']), /not sure.*`svc /);
});

test.run();
