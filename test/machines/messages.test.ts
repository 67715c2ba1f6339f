import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { upcast } from '../../machines/upcast.ts';
import {
  isShort,
  type OutputPart,
  type Piece,
  partsAfter,
  promptOf,
  shortMessages,
  systemOf,
} from '../../src/contract/messages/parts.ts';

function answer(...pieces: Piece[]): { output: string; parts: readonly OutputPart[] } {
  let output = '';
  let parts: readonly OutputPart[] = [];
  for (const piece of pieces) {
    parts = partsAfter(parts, output, piece);
    if (piece.kind === undefined) output += piece.text;
  }
  return { output, parts };
}

test('an answer of text alone has no parts', () => {
  assert.equal(answer({ text: 'Hel' }, { text: 'lo' }), { output: 'Hello', parts: [] });
});

test('text that comes before another kind becomes the first part', () => {
  const call = { id: 'c1', name: 'look' };
  assert.equal(
    answer({ text: 'I ' }, { text: 'look.' }, { text: '{"a"', kind: 'tool_call', call }).parts,
    [
      { type: 'text', text: 'I look.' },
      { type: 'tool_call', id: 'c1', name: 'look', arguments: '{"a"' },
    ],
  );
});

test('a piece without text begins a part only if it is a call', () => {
  const call = { id: 'c1', name: 'look' };
  const begun: Piece = { text: '', kind: 'tool_call', call };
  assert.equal(answer({ text: '', kind: 'reasoning' }, begun, { text: '' }), {
    output: '',
    parts: [{ type: 'tool_call', ...call, arguments: '' }],
  });
});

test('pieces of two calls that arrive in turns each go to their own call', () => {
  const piece = (id: string, text: string): Piece => ({
    text,
    kind: 'tool_call',
    call: { id, name: `n_${id}` },
  });
  assert.equal(answer(piece('a', '{'), piece('b', '['), piece('a', '}'), piece('b', ']')).parts, [
    { type: 'tool_call', id: 'a', name: 'n_a', arguments: '{}' },
    { type: 'tool_call', id: 'b', name: 'n_b', arguments: '[]' },
  ]);
});

test('the texts of all text parts together are the output', () => {
  const { output, parts } = answer(
    { text: 'hm', kind: 'reasoning' },
    { text: 'One' },
    { text: 'again', kind: 'reasoning' },
    { text: ' two' },
    { text: '!' },
  );
  assert.is(output, 'One two!');
  assert.equal(
    parts.map(({ type }) => type),
    ['reasoning', 'text', 'reasoning', 'text'],
  );
  assert.is(parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join(''), output);
});

test('the prompt is the last message of the user, and the system text joins all of them', () => {
  const messages = [
    ...shortMessages('first', 'be brief'),
    { role: 'assistant' as const, content: [{ type: 'text' as const, text: 'ok' }] },
    ...shortMessages('second', 'be kind'),
  ];
  assert.equal([promptOf({ messages }), systemOf({ messages })], ['second', 'be brief\n\nbe kind']);
  assert.not(isShort({ messages }));
  assert.ok(isShort({ messages: shortMessages('a', null) }));
  assert.ok(isShort({ messages: shortMessages('a', 'b') }));
});

test('a run that schema 1 accepted has the messages of its prompt and its system text', () => {
  const request = { provider: 'p', model: 'm', prompt: 'Hi', system: 'be brief', seed: 1 };
  assert.equal(upcast(1, 'run.accepted', { run_id: 'run_1', request }), {
    run_id: 'run_1',
    request: { provider: 'p', model: 'm', seed: 1, messages: shortMessages('Hi', 'be brief') },
  });
});

test('a prompt that schema 1 omitted becomes no message', () => {
  const request = { prompt: '', system: null };
  const data = upcast(1, 'run.accepted', { content: 'omitted', request });
  assert.equal(data.request, { messages: [] });
});

test('a prompt of a foreign file that is no text is not converted', () => {
  const data = { request: { prompt: 7 } };
  assert.is(upcast(1, 'run.accepted', data), data);
});

test('other events, and events of the present schema, stay as they are', () => {
  const data = { request: { prompt: 'p' } };
  assert.is(upcast(1, 'run.started', data), data);
  assert.is(upcast(2, 'run.accepted', data), data);
});

test.run();
