import type { Failure, NewEvent } from '../../../machines/events.ts';
import { asSentence, targetName } from '../../../machines/failover.ts';
import type { ProviderSnapshot } from '../../../machines/provider/chart.ts';
import { circuitOf, circuitState, circuitWait } from '../../../machines/provider/circuit.ts';
import type { ProviderFault } from '../../../machines/provider/context.ts';
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

/** Failures of the connection and of the account: they are the same for each model. */
const OF_PROVIDER: ReadonlySet<ErrorCode> = new Set([
  'provider_unreachable',
  'provider_address_unknown',
  'provider_tls_failed',
  'provider_quota_exceeded',
]);

/** Failures that say something about the model that was asked, whatever the prompt was. */
const OF_MODEL: ReadonlySet<ErrorCode> = new Set([
  'provider_unauthorised',
  'provider_busy',
  'provider_failed',
  'provider_overloaded',
  'provider_timed_out',
  'provider_silent',
  'provider_stalled',
  'stream_truncated',
  'stream_garbled',
  'stream_oversized',
]);

const NOT_REACHED = [
  'provider_unreachable',
  'provider_address_unknown',
  'provider_tls_failed',
] as const;

/** A local provider that is busy or slow may answer a request, which has longer than a probe. */
const SLOW_PROBE = 'provider_timed_out';

export function isFault({ code }: SvcError): boolean {
  return OF_PROVIDER.has(code) || OF_MODEL.has(code);
}

/** A key that cannot be read has no status: that is the same for each model. */
function isOfModel(failure: SvcError): boolean {
  return (
    OF_MODEL.has(failure.code) &&
    !(hasCode(failure, 'provider_unauthorised') && failure.status === null)
  );
}

/** What failed: a probe, the look for the key, or a request to a model. */
export type FailureSource = 'probe' | 'key' | { request: string; model: string };

/** What a failure means for the circuit of its provider or model. `jitter` is from 0 to 1. */
export function faultOf(
  of: FailureSource,
  failure: SvcError,
  { context }: ProviderSnapshot,
  { now, limits, jitter }: { now: number; limits: Limits; jitter: number },
): NewEvent<ProviderFault & { at: number }> {
  // A forbidden request says nothing about other requests, but a forbidden probe does.
  const unauthorised = hasCode(failure, 'provider_unauthorised', 'provider_forbidden');
  const isSpent = hasCode(failure, 'provider_quota_exceeded');
  const isAsked = failure.retryAfterMs !== null;
  const limited =
    isSpent ||
    hasCode(failure, 'provider_busy') ||
    (hasCode(failure, 'provider_overloaded') && isAsked);
  const isProbed =
    context.kind === 'local' &&
    (hasCode(failure, ...NOT_REACHED) ||
      (typeof of === 'string' && (unauthorised || hasCode(failure, SLOW_PROBE))));
  const { request, model } = typeof of === 'string' ? {} : of;
  const blamed = model !== undefined && isOfModel(failure) ? model : undefined;
  const circuit = blamed === undefined ? undefined : circuitOf(context.circuits, blamed);
  const openings = 1 + Math.max(context.openings, circuit?.openings ?? 0);
  const longest_ms = limits.circuit_wait_long_ms;
  const waits =
    unauthorised || isSpent
      ? { first_ms: limits.refused_wait_ms, longest_ms }
      : { first_ms: limits.circuit_wait_ms, longest_ms: limits.circuit_wait_max_ms };
  const own_ms = limited && isAsked ? 0 : circuitWait(openings, waits, jitter);
  const wait_ms = Math.max(Math.min(failure.retryAfterMs ?? 0, longest_ms), own_ms);
  return {
    error: failure.summary(),
    unauthorised,
    ...(blamed === undefined ? {} : { model: blamed }),
    ...(request === undefined ? {} : { request }),
    ...(limited ? { limited } : {}),
    // A probe of a local provider is cheap, so it decides instead of the time.
    ...(isProbed ? {} : { retry_at: now + wait_ms }),
  };
}

/**
 * Whether a request must try a provider or model whose time has come, or another request does.
 * Null: neither.
 */
export function trialAt(
  snapshot: ProviderSnapshot,
  model: string | null,
  now: number,
): { of: 'provider' | 'model'; isTaken: boolean } | null {
  if (isIn(snapshot, 'trying')) return { of: 'provider', isTaken: true };
  if (isIn(snapshot, 'ready')) return { of: 'provider', isTaken: false };
  const circuit = model === null ? undefined : circuitOf(snapshot.context.circuits, model);
  const state = circuitState(circuit, now);
  return state === 'ready' || state === 'trying'
    ? { of: 'model', isTaken: state === 'trying' }
    : null;
}

/** Why a request may not go to this model now. Without a model: to none of the provider. */
export function usability(snapshot: ProviderSnapshot, model: string | null, now: number): Usable {
  const { provider_id: id, error, retry_at, due_at, faulted, circuits } = snapshot.context;
  const circuit = model === null ? undefined : circuitOf(circuits, model);
  if (isIn(snapshot, 'unavailable') && retry_at === null) {
    if (error?.code === SLOW_PROBE) return { ok: true };
    const reason = error?.message ?? `${id} does not answer.`;
    return { ok: false, code: 'provider_unreachable', reason, until: null };
  }
  if (isIn(snapshot, 'trying')) return refusal({ id, error, faulted, trial_until: due_at }, now);
  if (CLOSED.some((state) => isIn(snapshot, state)))
    return refusal({ id, error, faulted, retry_at }, now);
  const state = circuitState(circuit, now);
  if (circuit === undefined || state === 'closed' || state === 'ready') return { ok: true };
  const { failed_at: at, trial } = circuit;
  const closed = { id, error: circuit.error, faulted: { at, model } };
  return state === 'trying'
    ? refusal({ ...closed, trial_until: trial?.until ?? now }, now)
    : refusal({ ...closed, retry_at: circuit.retry_at }, now);
}

const CLOSED = ['unavailable', 'rate_limited', 'unauthorised'] as const;

interface Closed {
  id: string;
  error: Failure | null;
  faulted: { at: number; model: string | null } | null;
  retry_at?: number | null;
  /** Another request tries it. */
  trial_until?: number;
}

/** Says what failed, when and where, that nothing was asked, and how to ask now. */
function refusal({ id, error, faulted, retry_at, trial_until }: Closed, now: number) {
  const ago = faulted === null ? '' : `${seconds(now - faulted.at)} ago `;
  const model = faulted?.model ?? null;
  const of = model === null ? '' : ` for ${targetName({ provider: id, model })}`;
  const did = error?.status === undefined ? 'failed' : `answered ${error.status}`;
  const reason = error === null ? '' : ` ${asSentence(error.message)}`;
  const isTried = trial_until !== undefined;
  const until = isTried ? Math.min(trial_until, now + TRIAL_MS) : (retry_at ?? null);
  const when = until === null ? 'when a probe succeeds' : `in ${seconds(until - now)}`;
  const next = isTried ? 'Another request tries it now.' : `It is asked again ${when}.`;
  return {
    ok: false,
    code: isTried ? 'provider_unavailable' : refusalCode(error),
    reason:
      `${id} was not asked: ${ago}it ${did}${of}.${reason} ${next} ` +
      `To ask now: svc provider test ${id}`,
    until,
  } as const;
}

/** Codes of a failure that a refusal has too. The others say only that something failed. */
const KEPT: readonly (string | undefined)[] = [
  'provider_unauthorised',
  'provider_busy',
  'provider_overloaded',
  'provider_quota_exceeded',
];

function refusalCode(error: Failure | null): ErrorCode {
  if (error?.code === 'provider_forbidden') return 'provider_unauthorised';
  return KEPT.includes(error?.code) ? (error?.code as ErrorCode) : 'provider_unavailable';
}

/** When a request that waits for the trial of another one asks again. */
const TRIAL_MS = 1000;

function seconds(ms: number): string {
  const whole = Math.max(1, Math.ceil(ms / 1000));
  return whole < 120 ? `${whole} s` : `${Math.ceil(whole / 60)} min`;
}
