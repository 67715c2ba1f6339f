import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Incoming } from '../../../src/http-client/incoming.ts';
import { defaultLimits } from '../../../src/limits.ts';
import { ChatAnswer } from '../../../src/providers/openai/chat-answer.ts';
import { readEvents } from '../../../src/providers/remote/read-events.ts';
import { READ_BYTES, ReadTurns, TURN_BYTES } from '../../../src/providers/remote/read-turns.ts';

/** Turns with the event loop of the test, and their readers in order. */
function open() {
  let next: (() => void) | null = null;
  const turns = new ReadTurns((serve) => {
    assert.is(next, null, 'one call a turn is enough');
    next = serve;
  });
  const read: number[] = [];
  const ask = (name: number, bytes: number) => {
    const granted = turns.take(bytes);
    if (granted === undefined) read.push(name);
    else void granted.then(() => read.push(name));
  };
  /** The readers of the next turn. */
  const turn = async (): Promise<number[]> => {
    const serve = next;
    next = null;
    serve?.();
    await Promise.resolve();
    return read.splice(0);
  };
  return { ask, turn, read, isIdle: () => next === null };
}

const upTo = (first: number, last: number) =>
  Array.from({ length: last - first }, (_, index) => first + index);
const SMALL = TURN_BYTES / READ_BYTES;

test('a thousand small pieces are read in several turns, in order', async () => {
  const { ask, turn, read } = open();
  for (const name of upTo(0, 1000)) ask(name, 1);
  const rounds = [read.splice(0)];
  while (rounds.flat().length < 1000) rounds.push(await turn());
  assert.ok(rounds.every(({ length }) => length > 0 && length <= SMALL));
  assert.equal(rounds.flat(), upTo(0, 1000));
});

test('a later piece does not overtake one that waits, and an idle loop is left alone', async () => {
  const { ask, turn, read, isIdle } = open();
  for (const name of [1, 2, 3]) ask(name, TURN_BYTES);
  assert.equal(read.splice(0), [1]);
  assert.equal(await turn(), [2]);
  ask(4, 1);
  assert.equal([await turn(), await turn(), await turn()], [[3], [4], []]);
  assert.ok(isIdle());
});

/** An answer whose only piece has come. */
function answer(text: string): ReturnType<typeof readEvents> {
  const body = new Incoming();
  const chunk = { choices: [{ index: 0, delta: { content: text }, finish_reason: 'stop' }] };
  const piece = Buffer.from(`data: ${JSON.stringify(chunk)}\n\n`);
  body.onResponseData({ pause() {} } as never, piece);
  const asked = {
    run_id: 'run_1',
    key: null,
    model: 'm',
    request: {},
    limits: defaultLimits,
    secrets: { key: null, place: null, texts: [] },
  };
  return readEvents(body, new ChatAnswer(asked), asked);
}

test('the pieces of many answers that come together are read in several turns', async () => {
  const texts: string[] = [];
  const reading = upTo(0, 3 * SMALL).map(async (index) => {
    const { value } = await answer(`t${index}`).next();
    texts.push(value?.type === 'output' ? value.text : 'no output');
  });
  for (let step = 0; step < 100; step += 1) await null;
  assert.is(texts.length, SMALL, 'this turn');
  await Promise.all(reading);
  assert.equal(
    texts,
    upTo(0, 3 * SMALL).map((index) => `t${index}`),
  );
});

test.run();
