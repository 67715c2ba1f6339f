import { invalidRequest } from '../../contract/check.ts';
import { CLIENT_MAX } from '../../contract/run.ts';
import { SvcError } from '../../errors.ts';
import { onAbort } from '../stream/on-abort.ts';
import type { Context } from './route.ts';

/** What the headers and the connection of a request say about the run that it starts. */

export const CLIENT = 'http';

/** The client's name for fair queueing. */
export function clientOf(req: Pick<Context['req'], 'headers'>): string {
  const named = req.headers['x-svc-client'] ?? req.headers['user-agent'];
  const name =
    typeof named === 'string'
      ? named
          .replace(/[^\x20-\x7e]/g, '')
          .slice(0, CLIENT_MAX)
          .trim()
      : '';
  return name === '' ? CLIENT : name;
}

/** The body, with the idempotency key of the header. */
export function withKey(body: unknown, key: string | string[] | undefined): unknown {
  if (key === undefined || typeof body !== 'object' || body === null || Array.isArray(body))
    return body;
  if ('idempotency_key' in body && body.idempotency_key !== key)
    throw invalidRequest(
      'idempotency_key',
      'idempotency_key and the header Idempotency-Key differ.',
    );
  return { ...body, idempotency_key: key };
}

/** One for each answer, however many runs it has. */
const signals = new WeakMap<Context['res'], AbortSignal>();

/**
 * Aborted when the client disconnects before the answer is complete. A listener that closes is not
 * the client: its runs continue at the next start.
 */
export function clientGoneSignal({ res, closing }: Pick<Context, 'res' | 'closing'>): AbortSignal {
  const known = signals.get(res);
  if (known !== undefined) return known;
  const gone = new AbortController();
  signals.set(res, gone.signal);
  const look = () =>
    res.writableFinished || closing.aborted || gone.abort(new SvcError('connection_lost'));
  if (res.destroyed) look();
  else res.once('close', look);
  return gone.signal;
}

type Ends = Pick<Context, 'res' | 'closing' | 'ended'>;

/** Aborted when the request is ended, its client leaves, or the listener closes. */
export function requestOver(request: Ends): AbortSignal {
  return firstOf(request, () => request.closing.reason);
}

/** Aborted when nothing can read an answer any more that no run keeps. */
export function answerEndSignal(request: Ends): AbortSignal {
  return firstOf(request, () => new SvcError('daemon_stopping'));
}

/**
 * The signals of the listener and of a token live long. `AbortSignal.any` would leave something in
 * them for each request.
 */
function firstOf({ res, closing, ended }: Ends, closed: () => unknown): AbortSignal {
  const over = new AbortController();
  const reasons = [
    [closing, closed],
    [ended, () => ended.reason],
  ] as const;
  for (const [signal, reason] of reasons) {
    const end = onAbort(signal, () => over.abort(reason()));
    res.once('close', end);
    if (signal.aborted) over.abort(reason());
  }
  const gone = clientGoneSignal({ res, closing });
  gone.addEventListener('abort', () => over.abort(gone.reason));
  if (gone.aborted) over.abort(gone.reason);
  return over.signal;
}
