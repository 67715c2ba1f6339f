import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type OutputPart as AnswerPart, partsAfter } from '../../../src/contract/messages/parts.ts';
import type { OutputPart } from '../../../src/ports/providers.ts';
import { OutputQueue } from '../../../src/runtime/runs/output-recorder.ts';

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

test('pieces of calls that alternate are one output of each call', () => {
  const queue = new OutputQueue();
  const call = (id: string) => ({ kind: 'tool_call', call: { id, name: 'f' } });
  const pieces = [piece('Hm', { kind: 'reasoning' })];
  for (let index = 0; index < 500; index += 1)
    pieces.push(piece(`${index},`, call('1')), piece(`${index};`, call('2')));
  pieces.push(piece('text'), piece('end', call('1')));
  let [whole, joined]: (readonly AnswerPart[])[] = [[], []];
  for (const each of pieces) {
    whole = partsAfter(whole ?? [], '', each);
    queue.add(each);
  }
  assert.is(queue.length, 4);
  for (let next = queue.take(); next !== null; next = queue.take())
    joined = partsAfter(joined ?? [], '', next);
  assert.equal(joined, whole, 'the answer is the same');
  assert.is(queue.characters, 0);
});

test('pieces with tokens stay in the order of their tokens', () => {
  const queue = new OutputQueue();
  const call = (id: string) => ({ kind: 'tool_call', call: { id, name: 'f' } });
  queue.add(piece('a', { ...call('1'), token_ids: [1] }));
  queue.add(piece('b', { ...call('2'), token_ids: [2] }));
  queue.add(piece('c', { ...call('1'), token_ids: [3] }));
  const ids: number[] = [];
  for (let next = queue.take(); next !== null; next = queue.take()) ids.push(...next.token_ids);
  assert.equal(ids, [1, 2, 3]);
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
