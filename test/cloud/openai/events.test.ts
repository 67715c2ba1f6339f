import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { EVENTS_A_TURN, guardEvents } from '../../../src/cloud/remote/events.ts';
import { SvcError } from '../../../src/errors.ts';
import { defaultLimits, type Limits } from '../../../src/limits.ts';

const small: Limits = {
  ...defaultLimits,
  provider_event_bytes: 40,
  provider_stream_bytes: 400,
  provider_error_bytes: 60,
};

/** The parsed events, or the failure. */
async function guarded(chunks: Uint8Array[], limits = small): Promise<string> {
  const refuse = (text: string | undefined) => {
    throw new SvcError('provider_rejected', `document: ${text ?? 'too long'}`, {
      retryable: false,
    });
  };
  const source = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const part of chunks) controller.enqueue(part);
      controller.close();
    },
  });
  try {
    const parts: Uint8Array[] = [];
    for await (const part of source.pipeThrough(guardEvents(limits, refuse))) parts.push(part);
    return Buffer.concat(parts).toString('utf8');
  } catch (thrown) {
    assert.instance(thrown, SvcError);
    return (thrown as SvcError).message;
  }
}

/** The text, cut at these places. */
function cut(text: string, places: number[]): Uint8Array[] {
  const bytes = Buffer.from(text);
  const at = [
    0,
    ...places.map((place) => place % (bytes.length + 1)).sort((a, b) => a - b),
    bytes.length,
  ];
  return at.slice(1).map((end, index) => bytes.subarray(at[index], end));
}

const places = fc.array(fc.nat(1000), { maxLength: 12 });
const eol = fc.constantFrom('\n', '\r\n', '\r');

test('events arrive as they are, for every cut', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.stringMatching(/^[a-z:äß ]{0,12}$/), { maxLength: 8 }),
      eol,
      places,
      async (lines, end, at) => {
        const text = lines.map((line) => `data: ${line}${end}${end}`).join('');
        assert.is(await guarded(cut(text, at)), text);
      },
    ),
  );
});

test('an event that is too large is refused, for every cut', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.nat(3),
      fc.integer({ min: 1, max: 6 }),
      eol,
      places,
      async (before, count, end, at) => {
        const large = `data: ${'x'.repeat(Math.ceil(50 / count))}${end}`.repeat(count);
        const text = `data: ok${end}${end}`.repeat(before) + large;
        assert.match(
          await guarded(cut(text, at)),
          /more for one event than the daemon accepts \(40 bytes\)/,
        );
      },
    ),
  );
});

test('an event that nests deeper than any answer is refused before it is parsed', async () => {
  const deep = `data: ${'['.repeat(1000)}\n\n`;
  for (const text of [deep, `: "\n${deep}`, `: ]]]]\ndata: {"a":"]]\\"]]",\n${deep}`])
    assert.match(
      await guarded([Buffer.from(text)], defaultLimits),
      /more for one event than the daemon accepts \(64 levels\)/,
    );
  await fc.assert(
    fc.asyncProperty(places, async (at) => {
      const fine =
        `data: ${JSON.stringify({ text: '[{"\\'.repeat(100) })}\n\n`.repeat(2) +
        'data: [\n\n'.repeat(100);
      assert.is(await guarded(cut(fine, at), defaultLimits), fine);
      assert.match(
        await guarded(cut(`data: ok\n\n${deep}`, at), defaultLimits),
        /more for one event than the daemon accepts \(64 levels\)/,
      );
    }),
  );
});

test('one turn of the event loop passes few events, however many one read has', async () => {
  const events = 500;
  const source = new Blob(['data: x\n\n'.repeat(events)]).stream();
  const refuse = () => {
    throw new SvcError('provider_rejected', 'document', { retryable: false });
  };
  let [inTurn, most, all] = [0, 0, 0];
  const nextTurn = () => {
    inTurn = 0;
    if (all < events) setImmediate(nextTurn);
  };
  nextTurn();
  for await (const part of source.pipeThrough(guardEvents(defaultLimits, refuse))) {
    const ended = Buffer.from(part).toString('utf8').split('\n\n').length - 1;
    inTurn += ended;
    all += ended;
    most = Math.max(most, inTurn);
  }
  assert.is(all, events);
  // One turn of the counter and one of the guard may fall between each other.
  assert.ok(most <= 2 * EVENTS_A_TURN, `${most} events came in one turn`);
});

test('an endless sequence of small events is refused too', async () => {
  assert.match(
    await guarded(cut('data: x\n\n'.repeat(100), [])),
    /more for an answer than the daemon accepts \(400 bytes\)/,
  );
});

test('a document arrives whole, for every cut', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom('{"error":"grün"}', ' \r\n<html>', '\uFEFF[1]'),
      places,
      async (text, at) => {
        assert.is(
          (await guarded(cut(text, at))).replace(/\s+/g, ''),
          `document:${text.replace(/\s+/g, '')}`,
        );
      },
    ),
  );
});

test('a document that is too long is refused', async () => {
  assert.is(await guarded(cut(`{${' '.repeat(500)}}`, [50, 100])), 'document: too long');
});

test.run();
