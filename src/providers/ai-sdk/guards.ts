import { measureJson } from '../../json.ts';
import type { Limits } from '../../limits.ts';
import type { Stage } from '../remote/event-answer.ts';
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
/** As much of a frame as has its name. */
const HEAD_BYTES = 256;

/**
 * Watches the binary frames of Amazon. Each begins with its own length. A frame above the bound of
 * an event fails the stream, because the decoder would keep all of it. The names of the last frames
 * say how far the answer has come.
 */
export class Frames {
  stage: Stage = 'open';
  private readonly limits: Limits;
  private total = 0;
  private left = 0;
  private head = Buffer.alloc(0);

  constructor(limits: Limits) {
    this.limits = limits;
  }

  /** Throws stream_oversized. */
  take(chunk: Buffer): void {
    const { provider_stream_bytes: streamMax, provider_event_bytes: eventMax } = this.limits;
    this.total += chunk.length;
    if (this.total > streamMax) throw tooLarge('an answer', streamMax);
    for (let at = 0; at < chunk.length; ) {
      const wanted = this.head.length < LENGTH_BYTES ? LENGTH_BYTES - this.head.length : this.left;
      const part = chunk.subarray(at, at + wanted);
      at += part.length;
      if (this.head.length < LENGTH_BYTES) {
        this.head = Buffer.concat([this.head, part]);
        if (this.head.length < LENGTH_BYTES) return;
        const size = this.head.readUInt32BE(0);
        if (size > eventMax) throw tooLarge('one event', eventMax);
        this.left = size - LENGTH_BYTES;
      } else {
        this.left -= part.length;
        if (this.head.length < HEAD_BYTES)
          this.head = Buffer.concat([this.head, part.subarray(0, HEAD_BYTES - this.head.length)]);
      }
      if (this.left <= 0) this.endFrame();
    }
  }

  private endFrame(): void {
    if (this.head.includes(nameHeader('messageStop'))) this.stage = 'reason';
    else if (this.stage === 'reason' && this.head.includes(nameHeader('metadata')))
      this.stage = 'ended';
    this.head = Buffer.alloc(0);
    this.left = 0;
  }
}

/** The header with the name of a frame. JSON has no such bytes. */
function nameHeader(name: string): string {
  return `:event-type\u0007\u0000${String.fromCharCode(name.length)}${name}`;
}
