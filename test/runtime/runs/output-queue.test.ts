import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { OutputPart } from '../../../src/providers/port.ts';
import { OutputQueue } from '../../../src/runtime/runs/output-queue.ts';

const piece = (text: string, more: object = {}): Extract<OutputPart, { type: 'output' }> => ({
  type: 'output',
  text,
  token_ids: [],
  ...more,
});

test('pieces of one kind in a row are one output with all their tokens', () => {
  const queue = new OutputQueue();
  queue.add(piece('a', { token_ids: [1] }));
  queue.add(piece('b', { token_ids: [2, 3], threads: 4 }));
  assert.equal([queue.length, queue.characters], [1, 2]);
  assert.equal(queue.take(), { text: 'ab', token_ids: [1, 2, 3], threads: 4 });
  assert.equal([queue.take(), queue.characters], [null, 0]);
});

test('another kind, and another call, begin a new output', () => {
  const queue = new OutputQueue();
  const call = (id: string) => ({ kind: 'tool_call', call: { id, name: 'f' } });
  queue.add(piece('thought', { kind: 'reasoning' }));
  queue.add(piece('text'));
  queue.add(piece('', call('1')));
  queue.add(piece('{}', call('1')));
  queue.add(piece('[]', call('2')));
  const texts: string[] = [];
  for (let next = queue.take(); next !== null; next = queue.take()) texts.push(next.text);
  assert.equal(texts, ['thought', 'text', '{}', '[]']);
});

test('the probabilities of joined pieces stay in order', () => {
  const queue = new OutputQueue();
  const logprobs = (token: string) => ({ logprobs: [{ token, logprob: -1, top: [] }] });
  queue.add(piece('a', logprobs('a')));
  queue.add(piece('b', logprobs('b')));
  assert.ok(queue.characters > 32, 'they count, so that a provider waits for their commit');
  assert.equal(
    queue.take()?.logprobs?.map(({ token }) => token),
    ['a', 'b'],
  );
});

test('an empty piece is no output, but the beginning of a call or a probability is', () => {
  const queue = new OutputQueue();
  queue.add(piece(''));
  assert.is(queue.length, 0);
  queue.add(piece('', { logprobs: [{ token: '', logprob: -1, top: [] }] }));
  assert.is(queue.take()?.logprobs?.length, 1);
  queue.add(piece('', { kind: 'tool_call', call: { id: '1', name: 'f' } }));
  assert.is(queue.length, 1);
});

test.run();
