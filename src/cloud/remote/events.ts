import { setImmediate as turn } from 'node:timers/promises';
import { type JsonExcess, JsonMeter } from '../../json.ts';
import { jsonBudgets, type Limits } from '../../limits.ts';
import { tooLarge, tooMuch } from './failure.ts';

/**
 * Passes server-sent events through, byte for byte, and fails the stream in these cases:
 *
 * 1. It begins like a page or a JSON document. `read` makes events of its text, or throws
 *    (undefined: it is too long).
 * 2. One event is larger than the bound: the parser would buffer all of it.
 * 3. The whole stream is larger than the bound.
 * 4. One event has too many levels or values: the parser would need too long.
 *
 * One turn of the event loop passes a bounded part of the events. The parser works in microtasks,
 * so a thousand tiny events at once would block the event loop.
 */
export function guardEvents(
  limits: Limits,
  read: (document: string | undefined) => string,
): TransformStream<Uint8Array, Uint8Array> {
  const decoder = new TextDecoder();
  let form: 'unknown' | 'events' | 'document' = 'unknown';
  let document = '';
  let total = 0;
  const scan = eventScanner();
  const json = new JsonMeter(jsonBudgets.package);
  const refuse = (excess: JsonExcess | null, what: string) => {
    if (excess !== null) throw tooMuch(what, excess);
  };
  return new TransformStream({
    async transform(chunk, controller) {
      total += chunk.length;
      if (form === 'unknown') form = formOfBeginning(chunk);
      if (form !== 'events') document += decoder.decode(chunk, { stream: true });
      if (form !== 'events' && total > limits.provider_event_bytes) {
        read(undefined);
        throw tooLarge('an answer', limits.provider_event_bytes);
      }
      if (form === 'document') return refuse(json.take(chunk), 'an answer');
      const { largest, turns, excess } = scan(chunk);
      if (largest > limits.provider_event_bytes)
        throw tooLarge('one event', limits.provider_event_bytes);
      refuse(excess, 'one event');
      if (total > limits.provider_stream_bytes)
        throw tooLarge('an answer', limits.provider_stream_bytes);
      let from = 0;
      for (const to of turns) {
        controller.enqueue(chunk.subarray(from, to));
        from = to;
        await turn();
      }
      if (from < chunk.length) controller.enqueue(chunk.subarray(from));
    },
    flush(controller) {
      if (form === 'document') controller.enqueue(new TextEncoder().encode(read(document)));
    },
  });
}

/** `{`, `[` and `<` begin no line of an event. */
function formOfBeginning(chunk: Uint8Array): 'unknown' | 'events' | 'document' {
  const first = chunk.find((byte) => !SPACE.has(byte));
  if (first === undefined) return 'unknown';
  return DOCUMENT.has(first) ? 'document' : 'events';
}

const LF = 0x0a;
const CR = 0x0d;
const SPACE = new Set([LF, CR, 0x20, 0x09, 0xef, 0xbb, 0xbf]);
const DOCUMENT = new Set([0x7b, 0x5b, 0x3c]);

/** The parser needs about 0.1 ms for each event, and 64 answers may arrive at one time. */
export const EVENTS_A_TURN = 8;
/** The schema of a package may need as long for so many. */
const VALUES_A_TURN = 1000;

interface Scanned {
  /** The most bytes between two empty lines in this chunk. */
  largest: number;
  /** Offsets that split the chunk into parts of one turn each. */
  turns: number[];
  /** The bound that an event is over. */
  excess: JsonExcess | null;
}

function eventScanner(): (chunk: Uint8Array) => Scanned {
  let size = 0;
  let line = 0;
  let previous = 0;
  const json = new JsonMeter(jsonBudgets.package);
  let values = 0;
  return (chunk) => {
    let excess: JsonExcess | null = null;
    let largest = 0;
    let events = 0;
    const turns: number[] = [];
    let index = 0;
    let from = 0;
    for (const byte of chunk) {
      index += 1;
      size += 1;
      if (byte === CR || (byte === LF && previous !== CR)) {
        excess ??= json.take(chunk.subarray(from, index));
        from = index;
        json.endLine();
        if (line === 0) {
          size = 0;
          events += 1;
          values += json.values;
          json.reset();
          if (events === EVENTS_A_TURN || values >= VALUES_A_TURN) {
            turns.push(index);
            events = 0;
            values = 0;
          }
        }
        line = 0;
      } else if (byte !== LF) line += 1;
      previous = byte;
      if (size > largest) largest = size;
    }
    excess ??= json.take(chunk.subarray(from));
    return { largest, turns, excess };
  };
}
