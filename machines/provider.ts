import { assign, type SnapshotFrom, setup } from 'xstate';
import { effect } from './effects.ts';
import type { Deadline, Failure, ProviderCreated, ProviderEvent } from './events.ts';

/**
 * Whether a provider can be asked, as far as this boot has seen.
 *
 * 1. A probe has a number; the outcome of an earlier one is not accepted.
 * 2. A cloud provider is never probed by itself: its state comes from what was asked of it.
 * 3. Refused credentials are `unauthorised`, whatever else is true.
 * 4. A settled state has no deadline, since a probe mostly finds it as it is. What looks at the provider starts a probe when there is news.
 */

export interface ProviderContext {
  provider_id: string;
  kind: 'local' | 'cloud';
  adapter: string;
  base_url: string | null;
  probe: number;
  models: string[];
  /** Failures in a row, saturating at the limit. */
  failures: number;
  failure_limit: number;
  probe_every_ms: number | null;
  probe_timeout_ms: number;
  error: Failure | null;
  /** Since when it answers, or since when it fails. */
  since: number;
  /** When the present probe has taken too long, or the next one is due. */
  due_at: number;
}

const machine = setup({
  types: {} as { context: ProviderContext; events: ProviderEvent; input: ProviderCreated },
  actions: {
    probeProvider: effect('probeProvider'),
    noteProbe: assign(({ context, event }) =>
      event.type === 'provider.probe_started'
        ? { probe: event.probe, due_at: event.at + context.probe_timeout_ms }
        : {},
    ),
    noteModels: assign(({ event }) =>
      event.type === 'provider.probe_succeeded' && event.models !== null
        ? { models: event.models }
        : {},
    ),
    noteSuccess: assign(({ context, event }) => ({
      failures: 0,
      error: null,
      since: sinceWhen(context, false, event.at),
      due_at: nextProbe(context, event.at),
    })),
    noteFailure: assign(({ context, event }) =>
      'error' in event
        ? {
            failures: Math.min(context.failure_limit, context.failures + 1),
            error: event.error,
            since: sinceWhen(context, true, event.at),
            due_at: nextProbe(context, event.at),
          }
        : {},
    ),
    noteRemoval: assign(({ event }) => ({ since: event.at })),
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

const probes = {
  'provider.probe_started': { guard: 'isNextProbe', target: 'probing', actions: 'noteProbe' },
} as const;
const recovers = { 'provider.answered': { target: 'available', actions: 'noteSuccess' } } as const;
const removes = { 'provider.removed': { target: 'removed', actions: 'noteRemoval' } } as const;
const faults = {
  'provider.faulted': [
    { guard: 'refuses', target: 'unauthorised', actions: 'noteFailure' },
    { guard: 'failsOften', target: 'unavailable', actions: 'noteFailure' },
    { target: 'degraded', actions: 'noteFailure' },
  ],
} as const;

export const providerMachine = machine.createMachine({
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
  initial: 'unknown',
  states: {
    unknown: { tags: ['stable'], on: { ...probes, ...recovers, ...faults, ...removes } },
    probing: {
      entry: {
        type: 'probeProvider',
        params: ({ context }) => ({ provider_id: context.provider_id, probe: context.probe }),
      },
      on: {
        'provider.probe_succeeded': {
          guard: 'isThisProbe',
          target: 'available',
          actions: ['noteModels', 'noteSuccess'],
        },
        'provider.probe_failed': [
          { guard: 'refusesThisProbe', target: 'unauthorised', actions: 'noteFailure' },
          { guard: 'failsOftenThisProbe', target: 'unavailable', actions: 'noteFailure' },
          { guard: 'isThisProbe', target: 'degraded', actions: 'noteFailure' },
        ],
        ...recovers,
        ...removes,
      },
    },
    available: { tags: ['stable', 'settled'], on: { ...probes, ...faults, ...removes } },
    degraded: { tags: ['stable'], on: { ...probes, ...recovers, ...faults, ...removes } },
    unavailable: { tags: ['stable', 'settled'], on: { ...probes, ...recovers, ...removes } },
    unauthorised: { tags: ['stable', 'settled'], on: { ...probes, ...recovers, ...removes } },
    removed: { type: 'final' },
  },
});

export type ProviderSnapshot = SnapshotFrom<typeof providerMachine>;

/** What happens by itself if nothing else does. */
export function providerDeadlines(snapshot: ProviderSnapshot): Deadline<ProviderEvent>[] {
  const { context } = snapshot;
  if (snapshot.matches('probing')) {
    const error: Failure = {
      code: 'provider_unreachable',
      message: 'The provider did not answer its probe in time.',
      retryable: true,
    };
    return [
      {
        at: context.due_at,
        event: { type: 'provider.probe_failed', probe: context.probe, error, unauthorised: false },
      },
    ];
  }
  if (snapshot.status !== 'active' || snapshot.hasTag('settled') || context.probe_every_ms === null)
    return [];
  return [
    { at: context.due_at, event: { type: 'provider.probe_started', probe: context.probe + 1 } },
  ];
}

function nextProbe(context: ProviderContext, now: number): number {
  return now + (context.probe_every_ms ?? 0);
}

/** A probe that finds what the one before found changes nothing. */
function sinceWhen(context: ProviderContext, fails: boolean, now: number): number {
  const asked = context.probe > 1 || context.error !== null;
  return asked && fails === (context.error !== null) ? context.since : now;
}
