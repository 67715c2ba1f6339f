import { assign, type SnapshotFrom, setup } from 'xstate';
import { effect } from './effects.ts';
import type { Deadline, Failure, ProviderCreated, ProviderEvent } from './events.ts';
import {
  endsModelTrial,
  evolve,
  isFault,
  isNews,
  isOfModel,
  isOfProbe,
  limits,
  mendsModel,
  newProvider,
  opens,
  type ProviderContext,
  refuses,
  startsModelTrial,
} from './provider-context.ts';
import { isIn } from './step.ts';

/**
 * Whether a provider can answer, as far as this boot knows: its health, and its circuit breaker.
 *
 * 1. A probe has a number. The outcome of an earlier probe is refused.
 * 2. A cloud provider is never probed by a deadline: its state comes from its answers and faults.
 * 3. One fault degrades it, and several in a row open the circuit: `unavailable`. Refused
 *    credentials open it at once: `unauthorised`. So does a limit of the account: `rate_limited`.
 * 4. An open circuit with a time becomes `half_open` then. One request tries the provider, and its
 *    outcome closes or opens the circuit. A new key closes it, and so does a probe that succeeds.
 * 5. A fault of one model opens only the circuit of that model, in the context: see
 *    `circuit.ts`. Several models that fail, without an answer between, open that of the
 *    provider. An answer closes the circuit of its model, and a probe that a user asked for all.
 * 6. A state with the tag `settled` has no deadline for a probe. The runtime looks at the provider
 *    and starts a probe when there is news.
 * 7. Every time of a retry is in the event, so its jitter is decided outside.
 * 8. Texts for embeddings leave only in a state that lets requests in. They change no state.
 */

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
    isThisTrial: ({ context, event }) => 'trial' in event && event.trial === context.trial,
    refusesThisProbe: ({ context, event }) =>
      isFault(event) && isOfProbe(context, event) && refuses(context, event),
    limitsThisProbe: ({ context, event }) =>
      isFault(event) && isOfProbe(context, event) && limits(context, event),
    opensThisProbe: ({ context, event }) =>
      isFault(event) && isOfProbe(context, event) && opens(context, event),
    refuses: ({ context, event }) =>
      isFault(event) && isNews(context, event) && refuses(context, event),
    limits: ({ context, event }) =>
      isFault(event) && isNews(context, event) && limits(context, event),
    opens: ({ context, event }) =>
      isFault(event) && isNews(context, event) && opens(context, event),
    isOfOneModel: ({ context, event }) =>
      isOfModel(event) && isNews(context, event) && !opens(context, event),
    triesProvider: ({ event }) =>
      event.type === 'provider.trial_started' && event.model === undefined,
    isNews: ({ context, event }) => isFault(event) && isNews(context, event),
    mendsModel: ({ context, event }) => mendsModel(context, event),
    startsModelTrial: ({ context, event }) => startsModelTrial(context, event),
    endsModelTrial: ({ context, event }) => endsModelTrial(context, event),
  },
});

export const providerMachine = createMachine({
  id: 'provider',
  context: ({ input }) => newProvider(input),
  initial: 'configured',
  states: {
    configured: {
      meta: { isGroup: true },
      initial: 'idle',
      on: {
        'provider.removed': { target: 'removed', actions: 'evolve' },
        'provider.key_changed': { target: '.idle.usable.unknown', actions: 'evolve' },
        'provider.embedding_counted': { actions: 'evolve' },
        'provider.trial_abandoned': { guard: 'endsModelTrial', actions: 'evolve' },
      },
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
                'provider.embedding_sent': { actions: 'evolve' },
                'provider.trial_started': { guard: 'startsModelTrial', actions: 'evolve' },
                'provider.answered': { guard: 'mendsModel', actions: 'evolve' },
                'provider.faulted': [
                  { guard: 'refuses', target: 'refusing.unauthorised', actions: 'evolve' },
                  { guard: 'limits', target: 'refusing.rate_limited', actions: 'evolve' },
                  { guard: 'opens', target: 'refusing.unavailable', actions: 'evolve' },
                  { guard: 'isNews', target: '.degraded', actions: 'evolve' },
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
            refusing: {
              meta: { isGroup: true },
              tags: ['settled'],
              initial: 'unavailable',
              states: {
                unavailable: {
                  on: {
                    'provider.wait_ended': {
                      target: '#provider.configured.idle.half_open',
                      actions: 'evolve',
                    },
                    'provider.answered': {
                      target: '#provider.configured.idle.usable.available',
                      actions: 'evolve',
                    },
                  },
                },
                rate_limited: {
                  on: {
                    'provider.wait_ended': {
                      target: '#provider.configured.idle.half_open',
                      actions: 'evolve',
                    },
                  },
                },
                unauthorised: {
                  on: {
                    'provider.wait_ended': {
                      target: '#provider.configured.idle.half_open',
                      actions: 'evolve',
                    },
                    'provider.answered': {
                      target: '#provider.configured.idle.usable.available',
                      actions: 'evolve',
                    },
                  },
                },
              },
            },
            half_open: {
              initial: 'ready',
              on: { 'provider.answered': { target: 'usable.available', actions: 'evolve' } },
              states: {
                ready: {
                  on: {
                    'provider.trial_started': {
                      guard: 'triesProvider',
                      target: 'trying',
                      actions: 'evolve',
                    },
                  },
                },
                trying: {
                  on: {
                    'provider.embedding_sent': { actions: 'evolve' },
                    'provider.trial_abandoned': {
                      guard: 'isThisTrial',
                      target: 'ready',
                      actions: 'evolve',
                    },
                    'provider.faulted': [
                      {
                        guard: 'refuses',
                        target: '#provider.configured.idle.refusing.unauthorised',
                        actions: 'evolve',
                      },
                      {
                        guard: 'limits',
                        target: '#provider.configured.idle.refusing.rate_limited',
                        actions: 'evolve',
                      },
                      {
                        guard: 'isOfOneModel',
                        target: '#provider.configured.idle.usable.degraded',
                        actions: 'evolve',
                      },
                      {
                        guard: 'isNews',
                        target: '#provider.configured.idle.refusing.unavailable',
                        actions: 'evolve',
                      },
                    ],
                  },
                },
              },
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
                target: 'idle.refusing.unauthorised',
                actions: 'evolve',
              },
              {
                guard: 'limitsThisProbe',
                target: 'idle.refusing.rate_limited',
                actions: 'evolve',
              },
              {
                guard: 'opensThisProbe',
                target: 'idle.refusing.unavailable',
                actions: 'evolve',
              },
              { guard: 'isThisProbe', target: 'idle.usable.degraded', actions: 'evolve' },
            ],
            'provider.answered': { target: 'idle.usable.available', actions: 'evolve' },
            'provider.embedding_sent': { actions: 'evolve' },
            'provider.trial_started': { guard: 'startsModelTrial', actions: 'evolve' },
          },
        },
      },
    },
    removed: { type: 'final' },
  },
});

export type ProviderSnapshot = SnapshotFrom<typeof providerMachine>;

const PROBE_TIMEOUT: Failure = {
  code: 'provider_unreachable',
  message: 'The provider did not answer its probe in time.',
  retryable: true,
};

const CIRCUIT_OPEN = ['unavailable', 'rate_limited', 'unauthorised'] as const;

/** The events that the kernel appends when their time comes, unless the state changes first. */
export function providerDeadlines(snapshot: ProviderSnapshot): Deadline<ProviderEvent>[] {
  const { kind, probe, due_at: at, probe_every_ms, retry_at, trial } = snapshot.context;
  if (isIn(snapshot, 'probing')) {
    // Without a time, only a probe closes the circuit. No probe comes by itself for a cloud one.
    const retry = kind === 'cloud' ? { retry_at: at + snapshot.context.probe_timeout_ms } : {};
    const event = { probe, error: PROBE_TIMEOUT, unauthorised: false, ...retry } as const;
    return [{ at, event: { type: 'provider.probe_failed', ...event } }];
  }
  if (isIn(snapshot, 'trying'))
    return [{ at, event: { type: 'provider.trial_abandoned', trial: trial ?? '' } }];
  if (retry_at !== null && CIRCUIT_OPEN.some((state) => isIn(snapshot, state)))
    return [{ at: retry_at, event: { type: 'provider.wait_ended' } }];
  if (
    snapshot.status !== 'active' ||
    snapshot.hasTag('settled') ||
    isIn(snapshot, 'half_open') ||
    probe_every_ms === null
  )
    return [];
  return [{ at, event: { type: 'provider.probe_started', probe: probe + 1 } }];
}
