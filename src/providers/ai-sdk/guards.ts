import { measureJson } from '../../json.ts';
import type { Limits } from '../../limits.ts';
import { tooDeep, tooLarge } from '../remote/failure.ts';

type Guard = TransformStream<Uint8Array, Uint8Array>;

/** Passes a whole body through, and fails it when it is larger or deeper than its bound. */
export function guardWhole(what: string, bytesMax: number): Guard {
  const json = measureJson();
  let total = 0;
  return new TransformStream({
    transform(chunk, controller) {
      total += chunk.length;
      if (total > bytesMax) throw tooLarge(what, bytesMax);
      if (chunk.some((byte) => json.take(byte))) throw tooDeep();
      controller.enqueue(chunk);
    },
  });
}

const LENGTH_BYTES = 4;

/**
 * Passes the binary frames of Amazon through. Each begins with its own length. A frame above the
 * bound of an event fails the stream, because the decoder would keep all of it.
 */
export function guardFrames(limits: Limits): Guard {
  let total = 0;
  let left = 0;
  let prefix: number[] = [];
  return new TransformStream({
    transform(chunk, controller) {
      total += chunk.length;
      if (total > limits.provider_stream_bytes)
        throw tooLarge('an answer', limits.provider_stream_bytes);
      for (let at = 0; at < chunk.length; ) {
        if (left > 0) {
          const taken = Math.min(left, chunk.length - at);
          left -= taken;
          at += taken;
          continue;
        }
        prefix.push(chunk[at] ?? 0);
        at += 1;
        if (prefix.length < LENGTH_BYTES) continue;
        const size = prefix.reduce((sum, byte) => sum * 256 + byte, 0);
        if (size > limits.provider_event_bytes)
          throw tooLarge('one event', limits.provider_event_bytes);
        left = Math.max(0, size - LENGTH_BYTES);
        prefix = [];
      }
      controller.enqueue(chunk);
    },
  });
}
