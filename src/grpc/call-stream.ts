import type { ServerWritableStream } from '@grpc/grpc-js';
import type { SharedBytes, UnsentBytes } from '../transport/stream/unsent-bytes.ts';

export type Streaming = ServerWritableStream<unknown, object>;

/**
 * The messages of one streaming call.
 *
 * 1. Nothing is read ahead of the client: the next page is read when the client has room.
 * 2. Unsent bytes are counted. A stream with too many of them is cut.
 */
export class CallStream {
  /** Aborted when the call is over, for whatever reason. */
  readonly over: AbortSignal;
  private readonly call: Streaming;
  private readonly outflow: ReturnType<UnsentBytes['enter']>;

  /** Throws busy when too much is unsent. */
  constructor(call: Streaming, unsent: UnsentBytes, cut: () => void) {
    unsent.admit();
    this.call = call;
    this.outflow = unsent.enter(cut);
    const over = new AbortController();
    this.over = over.signal;
    const end = () => {
      this.outflow.leave();
      over.abort();
    };
    if (call.cancelled) end();
    else call.once('cancelled', end);
  }

  /** Resolves when the next messages may be sent; undefined when they may be at once. */
  reserve(): Promise<void> | undefined {
    return this.outflow.reserve();
  }

  /** Resolves when the client has room for more, or the call is over. */
  async send(messages: readonly object[], shared: SharedBytes): Promise<void> {
    this.outflow.hold(shared);
    await this.outflow.turn(shared.size);
    if (!this.over.aborted && messages.length > 0)
      await new Promise<void>((resolve) => {
        this.over.addEventListener('abort', () => resolve());
        const last = messages.length - 1;
        for (const [index, message] of messages.entries())
          this.call.write(message, () => {
            if (index !== last) return;
            resolve();
          });
      });
    this.outflow.release(shared);
  }

  /** Sends a small message that the client can miss. */
  offer(message: object): void {
    if (!this.over.aborted && !this.call.writableNeedDrain) this.call.write(message);
  }
}
