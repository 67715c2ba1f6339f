import { SvcError } from '../../errors.ts';
import type { Incoming } from '../../http-client/incoming.ts';
import { parseForeignJson } from '../../json.ts';
import { guardEvents } from '../remote/events.ts';
import { toFailure } from '../remote/failure.ts';
import type { Asking } from '../remote/sdk-error.ts';
import { Exchange, type Upstream, webHeaders } from '../remote/upstream.ts';
import { parseUpstreamError } from '../remote/upstream-error.ts';
import { guardFrames, guardWhole } from './guards.ts';

/** What the body of a response may be. */
export type Expected = 'events' | 'whole' | 'any';

/**
 * The fetch that a package of the AI SDK gets: our connections, proxy, timeouts and bounds.
 *
 * 1. Each request has its own connection, and `end` closes those that are not read to their end.
 * 2. A status other than success is our own error, so that no error of the SDK is made of it.
 * 3. No body is larger than its bound.
 */
export class SdkFetch {
  private readonly upstream: Upstream;
  private readonly asking: Asking;
  private readonly expected: Expected;
  private readonly signal: AbortSignal;
  private readonly exchanges: { exchange: Exchange; isRead: boolean }[] = [];

  constructor(upstream: Upstream, asking: Asking, expected: Expected, signal: AbortSignal) {
    this.upstream = upstream;
    this.asking = asking;
    this.expected = expected;
    this.signal = signal;
  }

  readonly fetch = async (
    input: string | URL | Request,
    { method, headers, body }: RequestInit = {},
  ): Promise<Response> => {
    const begun = { exchange: new Exchange(this.upstream), isRead: false };
    this.exchanges.push(begun);
    const { model, secrets } = this.asking;
    const answered = await begun.exchange.send({
      method: method === 'GET' ? 'GET' : 'POST',
      url: input instanceof Request ? input.url : String(input),
      headers: Object.fromEntries(filled(new Headers(headers))),
      ...(body === undefined || body === null ? {} : { body: bytesOf(body) }),
      model,
      secrets,
      signal: this.signal,
    });
    const bytes = webStream(answered.body, () => {
      begun.isRead = true;
    });
    const received = webHeaders(answered.headers);
    return new Response(bytes.pipeThrough(this.guard(received)), { headers: received });
  };

  async end(): Promise<void> {
    await Promise.all(
      this.exchanges.map(({ exchange, isRead }) => exchange.end(isRead ? 'complete' : 'broken')),
    );
  }

  private guard(headers: Headers) {
    const { limits } = this.upstream;
    const type = headers.get('content-type') ?? '';
    if (type.includes('vnd.amazon.eventstream')) return guardFrames(limits);
    if (this.expected === 'whole' || (this.expected === 'any' && !type.includes('event-stream')))
      return guardWhole('an answer', limits.provider_answer_bytes);
    return guardEvents(limits, (text = '') => {
      throw this.noEvents(text);
    });
  }

  private noEvents(text: string): SvcError {
    const reported = parseUpstreamError(parseForeignJson(text), this.asking.secrets);
    if (reported.message !== null) return toFailure(reported, this.asking);
    return new SvcError(
      'provider_rejected',
      'The provider answers, but not with a stream of events; see its base_url.',
      { retryable: false },
    );
  }
}

/** The bytes as a stream of the web. `onEnd` is called when they are read to their end. */
function webStream(body: Incoming, onEnd: () => void): ReadableStream<Uint8Array> {
  return new ReadableStream({
    async pull(controller) {
      const read = await body.read();
      for (const chunk of read ?? []) controller.enqueue(chunk);
      if (read !== null) return;
      onEnd();
      controller.close();
    },
    cancel: (reason) => body.abort(reason),
  });
}

/** A package without a key sends an empty one. */
function filled(headers: Headers): Headers {
  for (const [name, value] of [...headers])
    if (value.trim() === '' || value.trim() === 'Bearer') headers.delete(name);
  return headers;
}

function bytesOf(body: unknown): string | Uint8Array {
  if (typeof body === 'string' || body instanceof Uint8Array) return body;
  throw new SvcError('provider_rejected', 'The adapter sends a body that svc does not take.');
}
