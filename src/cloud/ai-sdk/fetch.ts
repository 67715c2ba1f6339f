import { SvcError } from '../../errors.ts';
import type { Incoming } from '../../http-client/incoming.ts';
import { JsonMeter, parseForeignJson } from '../../json.ts';
import { type JsonBudget, jsonBudgets, type Limits } from '../../limits.ts';
import type { Stage } from '../remote/event-answer.ts';
import { guardEvents } from '../remote/events.ts';
import { notRead, readBody, toFailure, tooLarge, tooMuch } from '../remote/failure.ts';
import { lateRead } from '../remote/read-events.ts';
import { RequestForms } from '../remote/request-form.ts';
import type { Asking } from '../remote/sdk-error.ts';
import { Exchange, type Request, type Upstream, webHeaders } from '../remote/upstream.ts';
import { parseUpstreamError } from '../remote/upstream-error.ts';
import { Vectors } from './vectors.ts';

/**
 * The kind of body that a response may have. `kept`: the package does not see it. An object: the
 * package sees it without its vectors.
 */
export type Expected = 'kept' | 'events' | 'whole' | 'any' | 'vectors' | Vectors;

interface Wanted {
  expected: Expected;
  forms?: RequestForms;
  /** Changes a body of JSON. */
  fit?: ((body: Record<string, unknown>) => object) | undefined;
}

/**
 * The fetch that a package of the AI SDK gets: our connections, proxy, timeouts and bounds.
 *
 * 1. Each request has its own connection, and `end` closes those that are not read to their end.
 * 2. A status other than success is our own error, so that no error of the SDK is made of it.
 * 3. No body is larger than its bound.
 * 4. A body that is kept is read by svc. The package gets an empty stream for it.
 * 5. No JSON that the schema of a package sees is over its budget.
 */
export class SdkFetch {
  private readonly upstream: Upstream;
  private readonly asking: Asking;
  private readonly expected: Expected;
  private readonly forms: RequestForms;
  private readonly fit: Wanted['fit'];
  private readonly signal: AbortSignal;
  private readonly exchanges: Exchange[] = [];
  /** The last request, and the body of its response. */
  kept: { sent: unknown; body: Incoming } | null = null;

  constructor(
    upstream: Upstream,
    asking: Asking,
    { expected, forms = new RequestForms(), fit }: Wanted,
    signal: AbortSignal,
  ) {
    this.upstream = upstream;
    this.asking = asking;
    this.expected = expected;
    this.forms = forms;
    this.fit = fit;
    this.signal = signal;
  }

  readonly fetch = async (
    input: string | URL | globalThis.Request,
    { method, headers, body }: RequestInit = {},
  ): Promise<Response> => {
    const exchange = new Exchange(this.upstream);
    this.exchanges.push(exchange);
    const { model, secrets } = this.asking;
    const answered = await exchange.send({
      method: method === 'GET' ? 'GET' : 'POST',
      url: input instanceof globalThis.Request ? input.url : String(input),
      headers: Object.fromEntries(withoutEmptyHeaders(new Headers(headers))),
      ...this.bodyOf(body),
      model,
      secrets,
      signal: this.signal,
    });
    const received = webHeaders(answered.headers);
    if (this.expected === 'kept') {
      this.kept = { sent: body, body: answered.body };
      return new Response('', { headers: { 'content-type': 'text/event-stream' } });
    }
    const { limits } = this.upstream;
    if (this.expected instanceof Vectors)
      return json(await withoutVectors(answered.body, this.expected, limits), received);
    const type = received.get('content-type') ?? '';
    const frames = type.includes('vnd.amazon.eventstream') ? new Frames(limits) : null;
    const bytes = webStream(answered.body, frames, limits);
    const guard = frames === null ? this.guard(type) : null;
    return new Response(guard === null ? bytes : bytes.pipeThrough(guard), { headers: received });
  };

  /** `complete`: the answer is, whatever is left of the response. */
  async end(ended: 'complete' | 'broken' = 'broken'): Promise<void> {
    await Promise.all(this.exchanges.map((exchange) => exchange.end(ended)));
  }

  /** A body of JSON has the form that the model wants. */
  private bodyOf(body: unknown): Pick<Request, 'body' | 'instead'> {
    if (body === undefined || body === null) return {};
    const { model } = this.asking;
    if (typeof body !== 'string' || model === null) return { body: bytesOf(body) };
    const fitted = this.fit === undefined ? body : JSON.stringify(this.fit(JSON.parse(body)));
    return {
      body: this.forms.body(model, fitted),
      instead: this.forms.retryBodyFor(model, fitted),
    };
  }

  private guard(type: string) {
    const { limits } = this.upstream;
    if (this.expected === 'vectors')
      return guardWhole('the vectors', {
        ...jsonBudgets.package_vectors,
        bytes: limits.provider_vectors_bytes,
      });
    if (this.expected === 'whole' || (this.expected === 'any' && !type.includes('event-stream')))
      return guardWhole('an answer', {
        ...jsonBudgets.package,
        bytes: limits.provider_answer_bytes,
      });
    return guardEvents(limits, (text = '') => {
      throw this.noEvents(text);
    });
  }

  private noEvents(text: string): SvcError {
    const reported = parseUpstreamError(parseForeignJson(text), this.asking.secrets);
    if (reported.message !== null) return toFailure(reported, this.asking);
    return new SvcError(
      'provider_not_found',
      'The provider answers, but not with a stream of events; see its base_url.',
      { retryable: false },
    );
  }
}

/** The bytes as a stream of the web, up to the end of the answer or of the body. */
function webStream(
  body: Incoming,
  frames: Frames | null,
  limits: Limits,
): ReadableStream<Uint8Array> {
  let until = 0;
  return new ReadableStream({
    async pull(controller) {
      const stage = frames?.stage ?? 'open';
      const read = await (stage === 'open' ? body.read() : lateRead(body, stage, until));
      for (const chunk of read ?? []) {
        frames?.take(chunk);
        controller.enqueue(chunk);
      }
      if (stage === 'open') until = performance.now() + limits.provider_usage_ms;
      if (read !== null) return;
      controller.close();
    },
    cancel: (reason) => body.abort(reason),
  });
}

/** A package without a key sends an empty one. */
function withoutEmptyHeaders(headers: Headers): Headers {
  for (const [name, value] of [...headers])
    if (value.trim() === '' || value.trim() === 'Bearer') headers.delete(name);
  return headers;
}

function bytesOf(body: unknown): string | Uint8Array {
  if (typeof body === 'string' || body instanceof Uint8Array) return body;
  throw new SvcError('provider_rejected', 'The adapter sends a body that svc does not take.');
}

type Guard = TransformStream<Uint8Array, Uint8Array>;

function json(value: unknown, headers: Headers): Response {
  headers.delete('content-length');
  return new Response(JSON.stringify(value), { headers });
}

/** Throws stream_oversized, and provider_failed for a body that is not JSON. */
async function withoutVectors(body: Incoming, vectors: Vectors, limits: Limits): Promise<unknown> {
  const { provider_vectors_bytes: bytes } = limits;
  const value = await readBody(body, 'the vectors', { ...jsonBudgets.vectors, bytes });
  if (value === undefined) throw notRead('no JSON');
  return vectors.takeFrom(value);
}

/** Passes a whole body through, and fails it when it is over a bound. */
function guardWhole(what: string, budget: JsonBudget): Guard {
  const json = new JsonMeter(budget);
  return new TransformStream({
    transform(chunk, controller) {
      const excess = json.take(chunk);
      if (excess !== null) throw tooMuch(what, excess);
      controller.enqueue(chunk);
    },
  });
}

const LENGTH_BYTES = 4;
/** The lengths of the frame and of its headers. */
const PRELUDE_BYTES = 2 * LENGTH_BYTES;
const CHECKSUM_BYTES = 4;
/** As much of a frame as has its name. */
const HEAD_BYTES = 256;

/**
 * Watches the binary frames of Amazon. Each begins with its own length and that of its headers. A
 * frame above the bound of an event fails the stream, because the decoder would keep all of it. So
 * does a frame with too many values. The names of the last frames say how far the answer has come.
 */
class Frames {
  stage: Stage = 'open';
  private readonly limits: Limits;
  private total = 0;
  private left = 0;
  /** Bytes of the present frame before its JSON. */
  private before = 0;
  private head = Buffer.alloc(0);
  private readonly json = new JsonMeter(jsonBudgets.package);

  constructor(limits: Limits) {
    this.limits = limits;
  }

  /** Throws stream_oversized. The checksum after the JSON counts as a part of it. */
  take(chunk: Buffer): void {
    const { provider_stream_bytes: streamMax, provider_event_bytes: eventMax } = this.limits;
    this.total += chunk.length;
    if (this.total > streamMax) throw tooLarge('an answer', streamMax);
    for (let at = 0; at < chunk.length; ) {
      const missing = PRELUDE_BYTES - this.head.length;
      const wanted = missing > 0 ? missing : this.left;
      const part = chunk.subarray(at, at + wanted);
      at += part.length;
      if (missing > 0) {
        this.head = Buffer.concat([this.head, part]);
        if (this.head.length < PRELUDE_BYTES) return;
        const size = this.head.readUInt32BE(0);
        if (size > eventMax) throw tooLarge('one event', eventMax);
        this.left = size - PRELUDE_BYTES;
        this.before = CHECKSUM_BYTES + this.head.readUInt32BE(LENGTH_BYTES);
      } else {
        this.left -= part.length;
        const excess = this.json.take(part.subarray(Math.min(this.before, part.length)));
        if (excess !== null) throw tooMuch('one event', excess);
        this.before = Math.max(0, this.before - part.length);
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
    this.json.reset();
  }
}

/** The header with the name of a frame. JSON has no such bytes. */
function nameHeader(name: string): string {
  return `:event-type\u0007\u0000${String.fromCharCode(name.length)}${name}`;
}
