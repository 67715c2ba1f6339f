import { assign, type SnapshotFrom, setup } from 'xstate';
import { effect } from './effects.ts';
import type { Deadline, Failure, ProviderCreated, ProviderEvent } from './events.ts';
import { isIn } from './step.ts';

/**
 * Whether a provider can answer, as far as this boot knows.
 *
 * 1. A probe has a number. The outcome of an earlier probe is refused.
 * 2. A cloud provider is never probed by a deadline: its state comes from its answers and faults.
 * 3. Refused credentials lead to `unauthorised`, whatever else failed.
 * 4. A state with the tag `settled` has no deadline, because a probe rarely changes it. A client
 *    that looks at the provider starts a probe when there is news.
 */

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
  probe_every_ms: number | null;
  probe_timeout_ms: number;
  error: Failure | null;
  /** The time of the first answer, or of the first failure, in a row. */
  since: number;
  /** When the current probe times out, or the next one is due. */
  due_at: number;
}

const { createMachine } = setup({
  types: {} as { context: ProviderContext; events: ProviderEvent; input: ProviderCreated },
  actions: {
    probeProvider: effect('probeProvider'),
    evolve: assign(({ context, event }) => evolve(context, event)),
  },
  guards: {
    isNextProbe: ({ context, event }) =>
      event.type === 'provider.probe_started' && event.probe === context.probe + 1,
    isThisProbe: ({ context, event }) => 'probe' in event && event.probe === context.probe,
    refusesThisProbe: ({ context, event }) =>
      event.type === 'provider.probe_failed' && event.probe === context.probe && event.unauthorised,
    failsOftenThisProbe: ({ context, event }) =>
      event.type === 'provider.probe_failed' &&
      event.probe === context.probe &&
      (context.models.length === 0 || context.failures + 1 >= context.failure_limit),
    refuses: ({ event }) => 'unauthorised' in event && event.unauthorised,
    failsOften: ({ context }) => context.failures + 1 >= context.failure_limit,
  },
});

export const providerMachine = createMachine({
  id: 'provider',
  context: ({ input }) => ({
    provider_id: input.provider_id,
    kind: input.kind,
    adapter: input.adapter,
    base_url: input.base_url,
    probe: 0,
    models: [],
    failures: 0,
    failure_limit: input.failure_limit,
    probe_every_ms: input.probe_every_ms,
    probe_timeout_ms: input.probe_timeout_ms,
    error: null,
    since: input.at,
    due_at: input.at,
  }),
  initial: 'configured',
  states: {
    configured: {
      meta: { isGroup: true },
      initial: 'idle',
      on: { 'provider.removed': { target: 'removed', actions: 'evolve' } },
      states: {
        idle: {
          meta: { isGroup: true },
          tags: ['stable'],
          initial: 'usable',
          on: {
            'provider.probe_started': {
              guard: 'isNextProbe',
              target: 'probing',
              actions: 'evolve',
            },
          },
          states: {
            usable: {
              meta: { isGroup: true },
              initial: 'unknown',
              on: {
                'provider.faulted': [
                  { guard: 'refuses', target: 'unusable.unauthorised', actions: 'evolve' },
                  { guard: 'failsOften', target: 'unusable.unavailable', actions: 'evolve' },
                  { target: '.degraded', actions: 'evolve' },
                ],
              },
              states: {
                unknown: {
                  on: { 'provider.answered': { target: 'available', actions: 'evolve' } },
                },
                available: { tags: ['settled'] },
                degraded: {
                  on: { 'provider.answered': { target: 'available', actions: 'evolve' } },
                },
              },
            },
            unusable: {
              meta: { isGroup: true },
              tags: ['settled'],
              initial: 'unavailable',
              on: { 'provider.answered': { target: 'usable.available', actions: 'evolve' } },
              states: { unavailable: {}, unauthorised: {} },
            },
          },
        },
        probing: {
          entry: {
            type: 'probeProvider',
            params: ({ context: { provider_id, probe } }) => ({ provider_id, probe }),
          },
          on: {
            'provider.probe_succeeded': {
              guard: 'isThisProbe',
              target: 'idle.usable.available',
              actions: 'evolve',
            },
            'provider.probe_failed': [
              {
                guard: 'refusesThisProbe',
                target: 'idle.unusable.unauthorised',
                actions: 'evolve',
              },
              {
                guard: 'failsOftenThisProbe',
                target: 'idle.unusable.unavailable',
                actions: 'evolve',
              },
              { guard: 'isThisProbe', target: 'idle.usable.degraded', actions: 'evolve' },
            ],
            'provider.answered': { target: 'idle.usable.available', actions: 'evolve' },
          },
        },
      },
    },
    removed: { type: 'final' },
  },
});

export type ProviderSnapshot = SnapshotFrom<typeof providerMachine>;

/** What an event changes, whatever the state is. */
function evolve(context: ProviderContext, event: ProviderEvent): Partial<ProviderContext> {
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
        error: event.error,
        since: sinceWhen(context, true, event.at),
        due_at: nextProbe(context, event.at),
      };
    case 'provider.removed':
      return { since: event.at };
    default:
      return event satisfies never;
  }
}

function succeeded(context: ProviderContext, now: number): Partial<ProviderContext> {
  return {
    failures: 0,
    error: null,
    since: sinceWhen(context, false, now),
    due_at: nextProbe(context, now),
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

const PROBE_TIMEOUT: Failure = {
  code: 'provider_unreachable',
  message: 'The provider did not answer its probe in time.',
  retryable: true,
};

/** The events that the kernel appends when their time comes, unless the state changes first. */
export function providerDeadlines(snapshot: ProviderSnapshot): Deadline<ProviderEvent>[] {
  const { probe, due_at: at, probe_every_ms } = snapshot.context;
  if (isIn(snapshot, 'probing')) {
    const event = { probe, error: PROBE_TIMEOUT, unauthorised: false } as const;
    return [{ at, event: { type: 'provider.probe_failed', ...event } }];
  }
  if (snapshot.status !== 'active' || snapshot.hasTag('settled') || probe_every_ms === null)
    return [];
  return [{ at, event: { type: 'provider.probe_started', probe: probe + 1 } }];
}
