import { circuitWait } from '../../../machines/circuit.ts';
import type { NewEvent, ProviderFault } from '../../../machines/events.ts';
import type { ProviderSnapshot } from '../../../machines/provider.ts';
import { isIn } from '../../../machines/step.ts';
import { type ErrorCode, hasCode, type SvcError } from '../../errors.ts';
import type { Limits } from '../../limits.ts';

/** Whether a request may go to a provider now. `until`: when it is tried again; null: unknown. */
export type Usable =
  | { ok: true }
  | { ok: false; code: ErrorCode; reason: string; until: number | null };

/**
 * How a request ends for its provider. `began`: its first output is there. `abandoned`: it ended
 * without an outcome, such as by a cancel.
 */
export type Outcome = SvcError | 'began' | 'answered' | 'abandoned';

/** Failures that say something about the provider, whatever was asked. */
const FAULTS: ReadonlySet<ErrorCode> = new Set([
  'provider_unreachable',
  'provider_address_unknown',
  'provider_tls_failed',
  'provider_unauthorised',
  'provider_busy',
  'provider_failed',
  'provider_overloaded',
  'provider_timed_out',
  'provider_silent',
  'provider_stalled',
  'stream_truncated',
  'stream_garbled',
]);

const NOT_REACHED = [
  'provider_unreachable',
  'provider_address_unknown',
  'provider_tls_failed',
] as const;

/** A local provider that is busy or slow may answer a request, which has longer than a probe. */
const SLOW_PROBE = 'provider_timed_out';

export function isFaultOfProvider({ code }: SvcError): boolean {
  return FAULTS.has(code);
}

/** What a failure means for the circuit of its provider. `jitter` is from 0 to 1. */
export function faultOf(
  of: 'probe' | 'request',
  failure: SvcError,
  { context }: ProviderSnapshot,
  { now, limits, jitter }: { now: number; limits: Limits; jitter: number },
): NewEvent<ProviderFault & { at: number }> {
  // A forbidden request says nothing about other requests, but a forbidden probe does.
  const unauthorised = hasCode(failure, 'provider_unauthorised', 'provider_forbidden');
  const limited =
    hasCode(failure, 'provider_busy') ||
    (hasCode(failure, 'provider_overloaded') && failure.retryAfterMs !== null);
  const waits = { first_ms: limits.circuit_wait_ms, longest_ms: limits.circuit_wait_max_ms };
  const wait_ms = Math.max(
    failure.retryAfterMs ?? 0,
    limited && failure.retryAfterMs !== null ? 0 : circuitWait(context.openings + 1, waits, jitter),
  );
  const isProbed =
    context.kind === 'local' &&
    (hasCode(failure, ...NOT_REACHED) || (of === 'probe' && hasCode(failure, SLOW_PROBE)));
  return {
    error: failure.summary(),
    unauthorised,
    ...(limited ? { limited } : {}),
    // A probe of a local provider is cheap, so it decides instead of the time.
    ...(unauthorised || isProbed ? {} : { retry_at: now + wait_ms }),
  };
}

/** Why a request may not go to a provider in this state. */
export function usability(snapshot: ProviderSnapshot, now: number): Usable {
  const { provider_id: id, error, failures, retry_at, due_at } = snapshot.context;
  const said = error === null ? '' : ` ${error.message}`;
  const refuse = (code: ErrorCode, reason: string, until: number | null): Usable => ({
    ok: false,
    code,
    reason,
    until,
  });
  if (isIn(snapshot, 'unauthorised'))
    return refuse('provider_unauthorised', error?.message ?? `${id} refused the key.`, null);
  if (isIn(snapshot, 'rate_limited'))
    return refuse(
      'provider_busy',
      `${id} takes no request now, because there were too many. ` +
        `It is asked again ${after(retry_at, now)}.${said}`,
      retry_at,
    );
  if (isIn(snapshot, 'trying'))
    return refuse(
      'provider_unavailable',
      `${id} was down, and another request tries it now.${said}`,
      Math.min(due_at, now + TRIAL_MS),
    );
  if (!isIn(snapshot, 'unavailable')) return { ok: true };
  if (retry_at === null && error?.code === SLOW_PROBE) return { ok: true };
  if (retry_at === null)
    return refuse('provider_unreachable', error?.message ?? `${id} does not answer.`, null);
  const times = failures === 1 ? 'once' : `${failures} times in a row`;
  return refuse(
    'provider_unavailable',
    `${id} failed ${times} and is not asked. It is tried again ${after(retry_at, now)}.${said}`,
    retry_at,
  );
}

/** When a request that waits for the trial of another one asks again. */
const TRIAL_MS = 1000;

function after(at: number | null, now: number): string {
  if (at === null) return 'later';
  const seconds = Math.max(1, Math.ceil((at - now) / 1000));
  return seconds < 120 ? `in ${seconds} s` : `in ${Math.ceil(seconds / 60)} min`;
}
