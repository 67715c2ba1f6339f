import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { addPiece, type Piece } from '../../src/dialects/pieces.ts';
import { type PlacedPiece, Steady } from '../../src/dialects/steady.ts';

const test = suite('an answer that begins again');

const say = (text: string): Piece => ({ type: 'output', text });
const think = (text: string): Piece => ({ type: 'output', kind: 'reasoning', text });
const call = (id: string, text: string): Piece => ({
  type: 'output',
  kind: 'tool_call',
  call: { id, name: 'look' },
  text,
});
const AGAIN: Piece = { type: 'restart' };
const TURN: Piece = { type: 'turn' };
const END: Piece = {
  type: 'end',
  finish_reason: 'stop',
  usage: { input_tokens: 1, output_tokens: 1 },
};

/** What a client reads, as `part:text`, and the code of the error. */
async function read(...pieces: Piece[]): Promise<string[]> {
  const seen: string[] = [];
  const answer = new Steady(' / ');
  try {
    for (const each of pieces) {
      const piece = answer.take(each);
      if (piece !== null) seen.push(piece.type === 'end' ? 'end' : `${piece.part}:${piece.text}`);
    }
  } catch (error) {
    seen.push((error as { code: string }).code);
  }
  return seen;
}

test('each piece has the index of its part', async () => {
  assert.equal(
    await read(think('a'), say('b'), call('1', ''), call('2', '{'), call('1', '{}'), say('c'), END),
    ['0:a', '1:b', '2:', '3:{', '2:{}', '4:c', 'end'],
  );
});

test('a signature that is sent is not sent again, and one that is missing is', async () => {
  const signed = (data: string): Piece => ({
    type: 'output',
    kind: 'reasoning',
    text: '',
    opaque: { form: 'signature', data },
  });
  const repeated = [think('a'), signed('1'), think('b'), signed('2'), say('c')];
  const once = ['0:a', '0:', '1:b', '1:', '2:c', 'end'];
  assert.equal(await read(...repeated, AGAIN, ...repeated, END), once);
  assert.equal(await read(...repeated.slice(0, 3), AGAIN, ...repeated, END), once);
});

test('a repetition is sent once', async () => {
  assert.equal(await read(say('one '), say('two'), AGAIN, say('one two three'), END), [
    '0:one ',
    '0:two',
    '0: three',
    'end',
  ]);
  assert.equal(await read(say('one two'), AGAIN, say('o'), say('ne t'), say('wo.'), END), [
    '0:one two',
    '0:.',
    'end',
  ]);
  assert.equal(await read(think('a'), say('b'), AGAIN, think('a'), say('b'), say('c'), END), [
    '0:a',
    '1:b',
    '1:c',
    'end',
  ]);
  assert.equal(await read(say('a'), AGAIN, say('a'), call('1', '{'), call('1', '}'), END), [
    '0:a',
    '1:{',
    '1:}',
    'end',
  ]);
});

test('it may begin again more than once', async () => {
  assert.equal(await read(AGAIN, say('ab'), AGAIN, say('a'), AGAIN, say('ab'), say('c'), END), [
    '0:ab',
    '0:c',
    'end',
  ]);
});

test('another answer is an error, and so is a shorter one', async () => {
  assert.equal(await read(say('one'), AGAIN, say('two'), END), ['0:one', 'stream_truncated']);
  assert.equal(await read(say('one'), AGAIN, say('on'), END), ['0:one', 'stream_truncated']);
  assert.equal(await read(say('one'), AGAIN, think('one'), END), ['0:one', 'stream_truncated']);
  assert.equal(await read(call('1', '{'), AGAIN, call('2', '{'), END), ['0:{', 'stream_truncated']);
  assert.equal(await read(think('a'), say('b'), AGAIN, think('ab'), END), [
    '0:a',
    '1:b',
    'stream_truncated',
  ]);
});

test('the texts of turns have a gap, and only the present turn begins again', async () => {
  assert.equal(await read(say('I look.'), TURN, AGAIN, say('do'), AGAIN, say('done'), END), [
    '0:I look.',
    '1: / do',
    '1:ne',
    'end',
  ]);
  assert.equal(await read(TURN, say('a'), TURN, think('b'), AGAIN, think('bc'), say('d'), END), [
    '0:a',
    '1:b',
    '1:c',
    '2: / d',
    'end',
  ]);
  assert.equal(await read(say('ab'), AGAIN, say('a'), TURN, say('b'), END), [
    '0:ab',
    'stream_truncated',
  ]);
});

test('parts that were sent are the parts of the answer', async () => {
  let parts: ReturnType<typeof addPiece> = [];
  const answer = new Steady();
  for (const each of [say('a'), AGAIN, say('ab'), call('1', '{}'), END]) {
    const piece = answer.take(each);
    if (piece?.type === 'output') parts = addPiece(parts, piece as PlacedPiece);
  }
  assert.equal(parts, [
    { type: 'text', text: 'ab' },
    { type: 'tool_call', id: '1', name: 'look', arguments: '{}' },
  ]);
});

test.run();
