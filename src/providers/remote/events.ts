import type { ProviderFailure } from '../../kernel/provider.ts';
import type { Limits } from '../../limits.ts';
import { tooLarge } from './failure.ts';

/**
 * Lets a stream of server-sent events through, byte for byte, and fails it in these cases:
 *
 * 1. it begins like a page or a JSON document: `refuse` says what its text means (undefined: too long to be read);
 * 2. one event is larger than the bound: the parser behind would hold it all;
 * 3. the whole is larger than the bound.
 */
export function guardEvents(limits: Limits, refuse: (text: string | undefined) => ProviderFailure): TransformStream<Uint8Array, Uint8Array> {
  const decoder = new TextDecoder();
  let form: 'unknown' | 'events' | 'document' = 'unknown';
  let document = '';
  let total = 0;
  const largest = eventSizer();
  return new TransformStream({
    transform(chunk, controller) {
      total += chunk.length;
      if (form === 'unknown') form = beginning(chunk);
      if (form !== 'events') document += decoder.decode(chunk, { stream: true });
      if (form !== 'events' && total > limits.provider_error_bytes) throw refuse(undefined);
      if (form === 'document') return;
      if (largest(chunk) > limits.provider_event_bytes) throw tooLarge('one event', limits.provider_event_bytes);
      if (total > limits.provider_stream_bytes) throw tooLarge('an answer', limits.provider_stream_bytes);
      controller.enqueue(chunk);
    },
    flush() {
      if (form === 'document') throw refuse(document);
    },
  });
}

/** `{`, `[` and `<` begin no line of an event. */
function beginning(chunk: Uint8Array): 'unknown' | 'events' | 'document' {
  const first = chunk.find((byte) => !SPACE.has(byte));
  if (first === undefined) return 'unknown';
  return DOCUMENT.has(first) ? 'document' : 'events';
}

const LF = 0x0a;
const CR = 0x0d;
const SPACE = new Set([LF, CR, 0x20, 0x09, 0xef, 0xbb, 0xbf]);
const DOCUMENT = new Set([0x7b, 0x5b, 0x3c]);

/** Counts the bytes since the last empty line; gives the most that were gathered within the chunk. */
function eventSizer(): (chunk: Uint8Array) => number {
  let size = 0;
  let line = 0;
  let previous = 0;
  return (chunk) => {
    let most = 0;
    for (const byte of chunk) {
      size += 1;
      if (byte === CR || (byte === LF && previous !== CR)) {
        if (line === 0) size = 0;
        line = 0;
      } else if (byte !== LF) line += 1;
      previous = byte;
      if (size > most) most = size;
    }
    return most;
  };
}
