import type { ServerHttp2Stream } from 'node:http2';
import type { ServerInterceptingCallInterface } from '@grpc/grpc-js';
import { SvcError } from '../../errors.ts';
import type { Limits } from '../../limits.ts';
import { statusOf } from './status.ts';

/**
 * The calls without a token: health and reflection. It owns which of them stay when there are too
 * many, over all connections.
 *
 * 1. A new call always gets in. The oldest one ends then, and its client can call again.
 * 2. A call counts until its stream is closed, also before its message has arrived.
 */
export class PublicCalls {
  private readonly limits: Pick<Limits, 'public_calls' | 'close_grace_ms'>;
  /** Oldest first. */
  private readonly open = new Set<ServerHttp2Stream>();
  private readonly ends = new WeakMap<ServerHttp2Stream, () => void>();

  constructor(limits: Pick<Limits, 'public_calls' | 'close_grace_ms'>) {
    this.limits = limits;
  }

  enter(call: ServerInterceptingCallInterface): void {
    // The library shows the end of a call to its handler only, which may not run yet.
    const { stream } = call as unknown as { stream: ServerHttp2Stream };
    const { public_calls, close_grace_ms } = this.limits;
    this.open.add(stream);
    stream.once('close', () => this.open.delete(stream));
    this.ends.set(stream, () => {
      // Trailers after an answer are sent later than the status of a call without one.
      const grace_ms = stream.headersSent ? close_grace_ms : 0;
      call.sendStatus(statusOf(new SvcError('busy', 'Newer calls replaced this one.')));
      // The client may never end its side of the stream.
      const cut = setTimeout(() => stream.close(), grace_ms);
      stream.once('close', () => clearTimeout(cut));
    });
    const [oldest] = this.open;
    if (this.open.size <= public_calls || oldest === undefined) return;
    this.open.delete(oldest);
    this.ends.get(oldest)?.();
  }
}
