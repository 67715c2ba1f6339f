import type { Failure, NewEvent } from '../../../machines/events.ts';
import { asSentence, targetName } from '../../../machines/failover.ts';
import type { ProviderSnapshot } from '../../../machines/provider/chart.ts';
import {
  circuitOf,
  circuitState,
  circuitWait,
  openingsWith,
} from '../../../machines/provider/circuit.ts';
import type { ProviderEvent, ProviderFault } from '../../../machines/provider/context.ts';
import { isIn } from '../../../machines/step.ts';
import { anySignal } from '../../async/signals.ts';
import { withoutNull } from '../../contract/check.ts';
import { type ErrorCode, hasCode, SvcError } from '../../errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { ProviderKey } from '../../kernel/stream.ts';
import type { Limits } from '../../limits.ts';
import type { ProviderWatch } from './probe.ts';

export interface AdmissionOptions {
  kernel: Kernel;
  limits: Limits;
  /** From 0 to 1, for the jitter of waits. */
  random: () => number;
  watch: ProviderWatch;
}

/** A run or embedding, and its model. */
export interface Asking {
  request: string;
  model: string;
}

/** How long a request waits while another one tries the provider or the model. */
export interface Patience {
  wait_ms: number;
  signal: AbortSignal;
}

/** Decides which requests go to a provider, as the circuit in its machine says. */
export class Admission {
  private readonly options: AdmissionOptions;

  constructor(options: AdmissionOptions) {
    this.options = options;
  }

  checkUsable(id: string, stream: ProviderKey | undefined, model: string | null): Usable {
    const tail = this.tail(stream);
    const now = this.options.kernel.clock.now();
    return tail === undefined ? unknownUsable(id) : usability(tail, model, now);
  }

  /**
   * 1. A local provider that was down is probed first: it may be there again. A provider that was
   *    only slow gets the request.
   * 2. A provider or model whose time has come lets one request in, which tries it. The others wait
   *    for its outcome, if they have patience.
   */
  async enter(
    id: string,
    stream: ProviderKey | undefined,
    { request, model }: Asking,
    patience?: Patience,
  ): Promise<Usable> {
    const before = this.tail(stream);
    if (stream === undefined || before === undefined) return unknownUsable(id);
    const isDown = isIn(before, 'unavailable') && !this.checkUsable(id, stream, null).ok;
    if (isDown && before.context.retry_at === null) await this.options.watch.look(stream);
    const { kernel, limits } = this.options;
    const patient_until = kernel.clock.now() + (patience?.wait_ms ?? 0);
    for (;;) {
      const usable = this.checkUsable(id, stream, model);
      const trial = this.trial(stream, model);
      if (patience !== undefined && trial?.isTaken === true) {
        if (await this.isTried(stream, model, patient_until, patience.signal)) continue;
        return usable;
      }
      if (!usable.ok || trial === null) return usable;
      const isMine = await kernel.tryAppend(stream, {
        type: 'provider.trial_started',
        trial: request,
        ...(trial.of === 'model' ? { model } : {}),
        until: kernel.clock.now() + limits.first_output_ms,
      });
      if (isMine) return usable;
      // A trial that is free and refused would be tried for ever: the clock went back.
      const isFree = this.trial(stream, model)?.isTaken === false;
      if (patience === undefined || isFree) return this.checkUsable(id, stream, model);
    }
  }

  private trial(stream: ProviderKey, model: string): ReturnType<typeof trialAt> {
    const tail = this.tail(stream);
    return tail === undefined ? null : trialAt(tail, model, this.options.kernel.clock.now());
  }

  /**
   * Waits while another request tries the provider. False: it still does. Throws the reason of the
   * signal.
   */
  private async isTried(
    stream: ProviderKey,
    model: string,
    until: number,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { kernel } = this.options;
    const late = new AbortController();
    const left_ms = Math.max(0, until - kernel.clock.now());
    const stop = kernel.clock.after(left_ms, () => late.abort());
    const isOver = () => this.trial(stream, model)?.isTaken !== true;
    try {
      await kernel.waitFor(stream, isOver, anySignal([signal, late.signal]));
      return true;
    } catch (error) {
      if (signal.aborted || !late.signal.aborted) throw error;
      return false;
    } finally {
      stop();
    }
  }

  /** The event that records how a request goes. Null: it says nothing about the provider. */
  outcome(stream: ProviderKey, outcome: Outcome, asking: Asking): NewEvent<ProviderEvent> | null {
    const { request, model } = asking;
    const context = this.tail(stream)?.context;
    const isOfModel = circuitOf(context?.circuits ?? [], model)?.trial?.request === request;
    const isTrial = isOfModel || context?.trial === request;
    if (outcome === 'answered' || (outcome === 'began' && isTrial))
      return { type: 'provider.answered', model };
    if (outcome instanceof SvcError && isFault(outcome))
      return { type: 'provider.faulted', ...this.faultOf(asking, stream, outcome) };
    if (outcome === 'began' || !isTrial) return null;
    const abandoned = { type: 'provider.trial_abandoned', trial: request } as const;
    return isOfModel ? { ...abandoned, model } : abandoned;
  }

  faultOf(of: FailureSource, stream: ProviderKey, failure: SvcError) {
    const { kernel, limits, random } = this.options;
    const tail = this.tail(stream) as ProviderSnapshot;
    return faultOf(of, failure, tail, { now: kernel.clock.now(), limits, jitter: random() });
  }

  /** The state with its proposed events: decisions use it. Undefined: it was removed. */
  private tail(stream: ProviderKey | undefined): ProviderSnapshot | undefined {
    return stream === undefined ? undefined : this.options.kernel.tail(stream);
  }
}

function unknownUsable(id: string): Usable {
  const reason = `There is no provider ${JSON.stringify(id)}.`;
  return { ok: false, code: 'provider_unknown', reason, until: null };
}

/** Whether a request may go to a provider now. `until`: when it is tried again; null: unknown. */
export type Usable =
  | { ok: true }
  | ({ ok: false; code: ErrorCode; reason: string; until: number | null } & Advice);
/** Whether the failure is retryable, and its hint. Absent: those of the table of errors. */
type Advice = Partial<Pick<Failure, 'retryable' | 'hint'>>;

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

/** Failures of the requested model that do not depend on the prompt. */
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

function isFault({ code }: SvcError): boolean {
  return OF_PROVIDER.has(code) || OF_MODEL.has(code);
}

/** A key that cannot be read has no status: the failure is the same for each model. */
function isOfModel(failure: SvcError): boolean {
  return (
    OF_MODEL.has(failure.code) &&
    !(hasCode(failure, 'provider_unauthorised') && failure.status === null)
  );
}

/** The failed step: a probe, the read of the key, or a request to a model. */
type FailureSource = 'probe' | 'key' | { request: string; model: string };

/** The effect of a failure on the circuit of its provider or model. `jitter` is from 0 to 1. */
function faultOf(
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
  const openings = Math.max(
    openingsWith(context, request),
    openingsWith(circuit?.limited === limited ? circuit : undefined, request),
  );
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
function trialAt(
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
function usability(snapshot: ProviderSnapshot, model: string | null, now: number): Usable {
  const { provider_id: id, error, retry_at, due_at, faulted, circuits } = snapshot.context;
  const circuit = model === null ? undefined : circuitOf(circuits, model);
  if (isIn(snapshot, 'unavailable') && retry_at === null) {
    if (error?.code === SLOW_PROBE) return { ok: true };
    const reason = error?.message ?? `${id} does not answer.`;
    const { retryable, hint }: Advice = error ?? {};
    const advice = withoutNull({ retryable, hint });
    return { ok: false, code: 'provider_unreachable', reason, until: null, ...advice };
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
  /** Another request is the trial. */
  trial_until?: number;
}

/** The error of a refused request: the last failure, its time and model, and how to call now. */
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

/** Codes of a failure that its refusal also gets. The others mean only that something failed. */
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

/** When a request that waits for the trial of another one is retried. */
const TRIAL_MS = 1000;

function seconds(ms: number): string {
  const whole = Math.max(1, Math.ceil(ms / 1000));
  return whole < 120 ? `${whole} s` : `${Math.ceil(whole / 60)} min`;
}
