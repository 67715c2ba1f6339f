import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ChatAnswer } from '../../../src/cloud/openai/chat-answer.ts';
import { READ_BYTES, readEvents, TURN_BYTES } from '../../../src/cloud/remote/read-events.ts';
import { Incoming } from '../../../src/http-client/incoming.ts';
import { defaultLimits } from '../../../src/limits.ts';

const upTo = (first: number, last: number) =>
  Array.from({ length: last - first }, (_, index) => first + index);
const SMALL = TURN_BYTES / READ_BYTES;

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
