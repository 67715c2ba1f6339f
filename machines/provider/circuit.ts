import type { Failure } from '../events.ts';
import type { ProviderFault } from './context.ts';

/** What a provider knows of a model that failed. A model without a fault has no circuit. */
export interface ModelCircuit {
  model: string;
  /** The requests in a row that failed, up to the limit. The attempts of a run are one request. */
  failed: string[];
  /** How often in a row it opened. The wait grows with it. */
  openings: number;
  /** The model got too many requests, so only its trial closes the circuit. */
  limited: boolean;
  error: Failure;
  failed_at: number;
  /** When one request may try the model. Null: the circuit is closed. */
  retry_at: number | null;
  trial: { request: string; until: number } | null;
}

/**
 * The circuits of the models of one provider, the latest fault last.
 *
 * 1. They have no deadlines: a circuit whose time has come is ready, and the next request tries it.
 * 2. A client can name any number of models, so a few circuits are kept. Closed ones are forgotten
 *    first, then the oldest. A forgotten model gets requests again.
 */
export type ModelCircuits = readonly ModelCircuit[];

export const CIRCUITS_MAX = 64;

type CircuitState = 'closed' | 'refusing' | 'ready' | 'trying';

export function circuitOf(circuits: ModelCircuits, model: string): ModelCircuit | undefined {
  return circuits.find((circuit) => circuit.model === model);
}

export function circuitState(circuit: ModelCircuit | undefined, now: number): CircuitState {
  if (circuit === undefined || circuit.retry_at === null) return 'closed';
  if (circuit.trial !== null && circuit.trial.until > now) return 'trying';
  return circuit.retry_at > now ? 'refusing' : 'ready';
}

export type ModelFault = ProviderFault & { at: number; model: string };

/** A fault of one model. Each kind that means more than one request opens its circuit at once. */
export function afterFault(
  circuits: ModelCircuits,
  { model, request, error, unauthorised, limited = false, retry_at, at }: ModelFault,
  limit: number,
): ModelCircuits {
  const known = circuitOf(circuits, model);
  // Too many requests and failures are counted apart.
  const before = known?.limited === limited ? known : undefined;
  const failed = addFailedRequest(before?.failed ?? [], request, limit);
  const opens = unauthorised || limited || failed.length >= limit || before?.retry_at != null;
  const circuit: ModelCircuit = {
    model,
    failed,
    limited,
    error,
    failed_at: at,
    trial: null,
    openings: opens ? openingsWith(before, request) : (before?.openings ?? 0),
    retry_at: opens ? (retry_at ?? at) : null,
  };
  return dropExcessCircuits([...circuits.filter((other) => other !== known), circuit]);
}

/** Largest counted number of openings in a row. */
const OPENINGS_COUNTED = 8;

/** Openings in a row after one more. The attempts of a request open a circuit once. */
export function openingsWith(
  before: Pick<ModelCircuit, 'openings' | 'failed'> | undefined,
  request: string | undefined,
): number {
  const { openings = 0, failed = [] } = before ?? {};
  const isAgain = request !== undefined && openings > 0 && failed.includes(request);
  return isAgain ? openings : Math.min(OPENINGS_COUNTED, openings + 1);
}

/**
 * The last requests that failed, with this one. In old logs each failure counts as a new request.
 */
export function addFailedRequest(
  failed: readonly string[],
  request: string | undefined,
  limit: number,
): string[] {
  if (request !== undefined && failed.includes(request)) return [...failed];
  return [...failed, request ?? ''].slice(-limit);
}

/** An answer closes the circuit, unless its request was in progress when the model got too many. */
export function afterAnswer(
  circuits: ModelCircuits,
  model: string | undefined,
  isTrial: boolean,
): ModelCircuits {
  const answers = (one: ModelCircuit) =>
    one.model === model && (!one.limited || one.trial !== null || isTrial);
  return circuits.some(answers) ? circuits.filter((one) => !answers(one)) : circuits;
}

export function withTrial(
  circuits: ModelCircuits,
  model: string,
  trial: ModelCircuit['trial'],
): ModelCircuits {
  return circuits.map((one) => (one.model === model ? { ...one, trial } : one));
}

function dropExcessCircuits(circuits: ModelCircuit[]): ModelCircuits {
  if (circuits.length <= CIRCUITS_MAX) return circuits;
  const closed = circuits.find(({ retry_at }) => retry_at === null);
  const gone = closed ?? circuits[0];
  return circuits.filter((one) => one !== gone);
}

/** How long an open circuit of a provider waits, before one request tries it again. */
export interface CircuitWaits {
  first_ms: number;
  longest_ms: number;
}

/**
 * The wait after the circuit opened so often in a row. It doubles each time. `jitter`, from 0 to 1,
 * adds up to a quarter, so that many clients do not return at once.
 */
export function circuitWait(
  openings: number,
  { first_ms, longest_ms }: CircuitWaits,
  jitter: number,
): number {
  const wait = Math.min(longest_ms, first_ms * 2 ** Math.max(0, openings - 1));
  return Math.round(wait * (1 + jitter / 4));
}

/** The wait before the next look at a provider that did not change. It doubles each time. */
export function probeWait(
  unchanged: number,
  { first_ms, longest_ms }: CircuitWaits,
  jitter: number,
): number {
  const wait = Math.min(Math.max(first_ms, longest_ms), first_ms * 2 ** Math.min(unchanged, 16));
  return Math.round(wait * (0.9 + jitter / 5));
}
