import type { Failure, ProviderCreated, ProviderEvent } from './events.ts';

/** What a provider knows besides its state. */
export interface ProviderContext {
  provider_id: string;
  kind: 'local' | 'cloud';
  adapter: string;
  base_url: string | null;
  probe: number;
  models: string[];
  /** Failures in a row, up to the limit. */
  failures: number;
  failure_limit: number;
  /** How often in a row the circuit opened. The wait grows with it. */
  openings: number;
  probe_every_ms: number | null;
  probe_timeout_ms: number;
  error: Failure | null;
  /** The time of the first answer, or of the first failure, in a row. */
  since: number;
  /** When the current probe or trial times out, or the next probe is due. */
  due_at: number;
  /** When an open circuit becomes half-open. Null: only a probe closes it. */
  retry_at: number | null;
  /** The request that tries a half-open provider. */
  trial: string | null;
}

/** Openings in a row that count. */
export const OPENINGS_COUNTED = 8;

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
    failure_limit: input.failure_limit,
    openings: 0,
    probe_every_ms: input.probe_every_ms,
    probe_timeout_ms: input.probe_timeout_ms,
    error: null,
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
export function opens(
  { failures, failure_limit, models }: ProviderContext,
  { type }: Fault,
): boolean {
  return failures + 1 >= failure_limit || (type === 'provider.probe_failed' && models.length === 0);
}

/** What an event changes, whatever the state is. */
export function evolve(context: ProviderContext, event: ProviderEvent): Partial<ProviderContext> {
  switch (event.type) {
    case 'provider.probe_started':
      return { probe: event.probe, due_at: event.at + context.probe_timeout_ms };
    case 'provider.probe_succeeded':
      return { ...succeeded(context, event.at), models: event.models ?? context.models };
    case 'provider.answered':
      return succeeded(context, event.at);
    case 'provider.probe_failed':
    case 'provider.faulted':
      return {
        failures: Math.min(context.failure_limit, context.failures + 1),
        openings:
          event.limited === true || opens(context, event)
            ? Math.min(OPENINGS_COUNTED, context.openings + 1)
            : context.openings,
        error: event.error,
        since: sinceWhen(context, true, event.at),
        due_at: nextProbe(context, event.at),
        retry_at: event.unauthorised ? null : (event.retry_at ?? null),
        trial: null,
      };
    case 'provider.wait_ended':
      return { retry_at: null };
    case 'provider.trial_started':
      return { trial: event.trial, due_at: event.until };
    case 'provider.trial_abandoned':
      return { trial: null };
    case 'provider.key_changed':
      return succeeded(context, event.at);
    case 'provider.removed':
      return { since: event.at };
    case 'provider.embedding_sent':
    case 'provider.embedding_counted':
      return {};
    default:
      return event satisfies never;
  }
}

function succeeded(context: ProviderContext, now: number): Partial<ProviderContext> {
  return {
    failures: 0,
    openings: 0,
    error: null,
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
