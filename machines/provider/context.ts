import type { EmbeddingSent } from '../../src/contract/embed-input.ts';
import type { EventOf } from '../../src/contract/events.ts';
import type { Failure } from '../events.ts';
import {
  addFailedRequest,
  afterAnswer,
  afterFault,
  circuitOf,
  circuitState,
  type ModelCircuits,
  type ModelFault,
  openingsWith,
  withTrial,
} from './circuit.ts';

export type ProviderCreated = EventOf<
  'provider.configured',
  {
    provider_id: string;
    kind: 'local' | 'cloud';
    adapter: string;
    base_url: string | null;
    /** Failed probes in a row after which a provider that worked is unavailable. */
    failure_limit: number;
    /** Milliseconds between probes; null if the provider is probed only on request. */
    probe_every_ms: number | null;
    probe_timeout_ms: number;
  }
>;

export interface ProviderFault {
  error: Failure;
  unauthorised: boolean;
  /** The model that failed. Absent: it is a fault of the whole provider. */
  model?: string;
  /** The run or embedding that failed. Its attempts count once. */
  request?: string;
  /** The provider refuses the request because there were too many. */
  limited?: boolean;
  /** If this opens the circuit: when a request may try the provider again. */
  retry_at?: number;
}

export interface EmbeddingCounted extends Omit<EmbeddingSent, 'texts' | 'bytes'> {
  /** When it was sent. */
  sent_at: number;
  input_tokens: number;
}

export type ProviderEvent =
  | EventOf<'provider.probe_started', { probe: number }>
  /** `asked`: a user requested the probe, so every model gets requests again. */
  | EventOf<'provider.probe_succeeded', { probe: number; models: string[] | null; asked?: true }>
  | EventOf<'provider.probe_failed', { probe: number } & ProviderFault>
  | EventOf<'provider.answered', { model?: string }>
  | EventOf<'provider.faulted', ProviderFault>
  /** The time of an open circuit has come: one request may try the provider. */
  | EventOf<'provider.wait_ended'>
  /**
   * `trial`: the request that tries the provider. The outcome is awaited until a time. `model`:
   * only this model is tried.
   */
  | EventOf<'provider.trial_started', { trial: string; until: number; model?: string }>
  /** The trial ended without an outcome, such as by a cancel. */
  | EventOf<'provider.trial_abandoned', { trial: string; model?: string }>
  /** Texts leave this machine for their vectors. It is recorded before the first byte leaves. */
  | EventOf<'provider.embedding_sent', EmbeddingSent>
  /** The provider says how many tokens that request had. This replaces the estimate. */
  | EventOf<'provider.embedding_counted', EmbeddingCounted>
  | EventOf<'provider.key_changed'>
  | EventOf<'provider.removed'>;

/** What a provider knows besides its state. */
export interface ProviderContext {
  provider_id: string;
  kind: 'local' | 'cloud';
  adapter: string;
  base_url: string | null;
  probe: number;
  models: string[];
  /** Failures in a row of the whole provider, up to the limit. */
  failures: number;
  /** The requests among them. Attempts of one run count once. */
  failed: string[];
  /** The circuits of models that failed. */
  circuits: ModelCircuits;
  /** The models whose circuits opened since any model answered. */
  failing: readonly string[];
  failure_limit: number;
  /** How often in a row the circuit opened. The wait grows with it. */
  openings: number;
  probe_every_ms: number | null;
  probe_timeout_ms: number;
  error: Failure | null;
  /** When the error was, and at which model. */
  faulted: { at: number; model: string | null } | null;
  /** The time of the first answer, or of the first failure, in a row. */
  since: number;
  /** When the current probe or trial times out, or the next probe is due. */
  due_at: number;
  /** When an open circuit becomes half-open. Null: only a probe closes it. */
  retry_at: number | null;
  /** The request that tries a half-open provider. */
  trial: string | null;
}

/** The context of a new provider. */
export function newProvider(input: ProviderCreated): ProviderContext {
  return {
    provider_id: input.provider_id,
    kind: input.kind,
    adapter: input.adapter,
    base_url: input.base_url,
    probe: 0,
    models: [],
    failures: 0,
    failed: [],
    circuits: [],
    failing: [],
    failure_limit: input.failure_limit,
    openings: 0,
    probe_every_ms: input.probe_every_ms,
    probe_timeout_ms: input.probe_timeout_ms,
    error: null,
    faulted: null,
    since: input.at,
    due_at: input.at,
    retry_at: null,
    trial: null,
  };
}

type Fault = Extract<ProviderEvent, { type: 'provider.faulted' | 'provider.probe_failed' }>;

export function isFault(event: ProviderEvent): event is Fault {
  return event.type === 'provider.faulted' || event.type === 'provider.probe_failed';
}

export function isOfProbe({ probe }: ProviderContext, event: Fault): boolean {
  return event.type === 'provider.probe_failed' && event.probe === probe;
}

/** Whether one more failure opens the circuit. One that never worked has no credit. */
export function opensCircuit(context: ProviderContext, event: Fault): boolean {
  if (isOfModel(event)) return failSeveral(context, event);
  return (
    failuresWith(context, event).failures >= context.failure_limit ||
    (event.type === 'provider.probe_failed' && context.models.length === 0)
  );
}

/** Whether credentials are refused: without a model, or to a second one. */
export function refusesCredentials(context: ProviderContext, event: Fault): boolean {
  return event.unauthorised && (!isOfModel(event) || failSeveral(context, event));
}

/** Whether the whole provider takes no request, because there were too many. */
export function limits(context: ProviderContext, event: Fault): boolean {
  return event.limited === true && (!isOfModel(event) || failSeveral(context, event));
}

export function isOfModel(event: ProviderEvent): event is Fault & ModelFault {
  return isFault(event) && event.model !== undefined;
}

/** A fault of a model whose circuit is already open changes nothing, unless it was the trial. */
export function isNews({ circuits }: ProviderContext, event: Fault): boolean {
  if (!isOfModel(event)) return true;
  return circuitState(circuitOf(circuits, event.model), event.at) !== 'refusing';
}

/** Whether an answer changes the circuit of its model. */
export function mendsModel(context: ProviderContext, event: ProviderEvent): boolean {
  return (
    event.type === 'provider.answered' &&
    afterAnswer(context.circuits, event.model, false) !== context.circuits
  );
}

export function startsModelTrial({ circuits }: ProviderContext, event: ProviderEvent): boolean {
  return (
    event.type === 'provider.trial_started' &&
    event.model !== undefined &&
    circuitState(circuitOf(circuits, event.model), event.at) === 'ready'
  );
}

export function endsModelTrial({ circuits }: ProviderContext, event: ProviderEvent): boolean {
  return (
    event.type === 'provider.trial_abandoned' &&
    event.model !== undefined &&
    circuitOf(circuits, event.model)?.trial?.request === event.trial
  );
}

/**
 * Faults of several models, without an answer between them, are the provider's. Refused
 * credentials are at the second model.
 */
function failSeveral(context: ProviderContext, event: Fault & ModelFault): boolean {
  const { circuits, failing } = withModelFault(context, event);
  if (!event.unauthorised) return failing.length >= Math.max(SEVERAL, context.failure_limit);
  const hasSameError = (model: string) =>
    circuitOf(circuits, model)?.error.code === event.error.code;
  return failing.filter(hasSameError).length >= SEVERAL;
}

const SEVERAL = 2;

function withModelFault(
  { circuits, failing, failure_limit }: ProviderContext,
  event: ModelFault,
): Pick<ProviderContext, 'circuits' | 'failing'> {
  const after = afterFault(circuits, event, failure_limit);
  const opened = circuitOf(after, event.model)?.retry_at != null;
  const known = failing.filter((model) => model !== event.model);
  const most = Math.max(SEVERAL, failure_limit);
  return { circuits: after, failing: opened ? [...known, event.model].slice(-most) : failing };
}

function failuresWith(
  { failures, failed, failure_limit }: ProviderContext,
  { request }: Fault,
): Pick<ProviderContext, 'failures' | 'failed'> {
  if (request !== undefined && failed.includes(request)) return { failures, failed };
  return {
    failures: Math.min(failure_limit, failures + 1),
    failed: request === undefined ? failed : addFailedRequest(failed, request, failure_limit),
  };
}

/** What an event changes, whatever the state is. */
export function evolve(context: ProviderContext, event: ProviderEvent): Partial<ProviderContext> {
  switch (event.type) {
    case 'provider.probe_started':
      return { probe: event.probe, due_at: event.at + context.probe_timeout_ms };
    case 'provider.probe_succeeded':
      return {
        ...closeCircuit(context, event.at),
        models: event.models ?? context.models,
        ...(event.asked === true ? NO_FAULTS : {}),
      };
    case 'provider.answered':
      return {
        ...closeCircuit(context, event.at),
        circuits: afterAnswer(context.circuits, event.model, context.trial !== null),
        failing: [],
      };
    case 'provider.probe_failed':
    case 'provider.faulted': {
      const isOpen = closesProvider(context, event);
      return {
        ...(isOfModel(event)
          ? { ...withModelFault(context, event), failures: 0, failed: [] }
          : failuresWith(context, event)),
        openings: isOpen ? openingsWith(context, event.request) : context.openings,
        error: event.error,
        faulted: { at: event.at, model: event.model ?? null },
        since: sinceWhen(context, true, event.at),
        due_at: nextProbe(context, event.at),
        retry_at: isOpen || !isOfModel(event) ? (event.retry_at ?? null) : null,
        trial: null,
      };
    }
    case 'provider.wait_ended':
      return { retry_at: null };
    case 'provider.trial_started': {
      const { trial: request, until, model } = event;
      return model === undefined
        ? { trial: request, due_at: until }
        : { circuits: withTrial(context.circuits, model, { request, until }) };
    }
    case 'provider.trial_abandoned':
      return event.model === undefined
        ? { trial: null }
        : { circuits: withTrial(context.circuits, event.model, null) };
    case 'provider.key_changed':
      return { ...closeCircuit(context, event.at), ...NO_FAULTS };
    case 'provider.removed':
      return { since: event.at };
    case 'provider.embedding_sent':
    case 'provider.embedding_counted':
      return {};
    default:
      return event satisfies never;
  }
}

/** Every model gets requests. */
const NO_FAULTS = { circuits: [], failing: [] } as const;

/** Whether a fault closes the provider to requests. A failed trial always does, but for a model. */
function closesProvider(context: ProviderContext, event: Fault): boolean {
  const isTrial = context.trial !== null && !isOfModel(event);
  return (
    isTrial ||
    refusesCredentials(context, event) ||
    limits(context, event) ||
    opensCircuit(context, event)
  );
}

function closeCircuit(context: ProviderContext, now: number): Partial<ProviderContext> {
  return {
    failures: 0,
    failed: [],
    openings: 0,
    error: null,
    faulted: null,
    since: sinceWhen(context, false, now),
    due_at: nextProbe(context, now),
    retry_at: null,
    trial: null,
  };
}

function nextProbe(context: ProviderContext, now: number): number {
  return now + (context.probe_every_ms ?? 0);
}

/** A probe with the same outcome as the one before does not change `since`. */
function sinceWhen(context: ProviderContext, fails: boolean, now: number): number {
  const isKnown = context.probe > 1 || context.error !== null;
  return isKnown && fails === (context.error !== null) ? context.since : now;
}
