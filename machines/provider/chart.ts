import { type SnapshotFrom, setup } from 'xstate';
import { effect } from '../effects.ts';
import type { Failure } from '../events.ts';
import { type Deadlines, type Meta, withRules } from '../machine.ts';
import type { ProviderCreated, ProviderEvent } from './context.ts';
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
  opensCircuit,
  type ProviderContext,
  refusesCredentials,
  startsModelTrial,
} from './context.ts';

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

const chart = setup({
  types: {} as {
    meta: Meta;
    context: ProviderContext;
    events: ProviderEvent;
    input: ProviderCreated;
  },
  actions: { probeProvider: effect('probeProvider') },
  guards: {
    isNextProbe: ({ context, event }) =>
      event.type === 'provider.probe_started' && event.probe === context.probe + 1,
    isThisProbe: ({ context, event }) => 'probe' in event && event.probe === context.probe,
    isThisTrial: ({ context, event }) => 'trial' in event && event.trial === context.trial,
    refusesThisProbe: ({ context, event }) =>
      isFault(event) && isOfProbe(context, event) && refusesCredentials(context, event),
    limitsThisProbe: ({ context, event }) =>
      isFault(event) && isOfProbe(context, event) && limits(context, event),
    opensThisProbe: ({ context, event }) =>
      isFault(event) && isOfProbe(context, event) && opensCircuit(context, event),
    refuses: ({ context, event }) =>
      isFault(event) && isNews(context, event) && refusesCredentials(context, event),
    limits: ({ context, event }) =>
      isFault(event) && isNews(context, event) && limits(context, event),
    opens: ({ context, event }) =>
      isFault(event) && isNews(context, event) && opensCircuit(context, event),
    isOfOneModel: ({ context, event }) =>
      isOfModel(event) && isNews(context, event) && !opensCircuit(context, event),
    triesProvider: ({ event }) =>
      event.type === 'provider.trial_started' && event.model === undefined,
    isNews: ({ context, event }) => isFault(event) && isNews(context, event),
    mendsModel: ({ context, event }) => mendsModel(context, event),
    startsModelTrial: ({ context, event }) => startsModelTrial(context, event),
    endsModelTrial: ({ context, event }) => endsModelTrial(context, event),
  },
}).createMachine({
  id: 'provider',
  context: ({ input }) => newProvider(input),
  initial: 'configured',
  states: {
    configured: {
      meta: { isGroup: true },
      initial: 'idle',
      on: {
        'provider.removed': 'removed',
        'provider.key_changed': '.idle.usable.unknown',
        'provider.embedding_counted': {},
        'provider.trial_abandoned': { guard: 'endsModelTrial' },
      },
      states: {
        idle: {
          meta: { isGroup: true },
          tags: ['stable'],
          initial: 'usable',
          on: { 'provider.probe_started': { guard: 'isNextProbe', target: 'probing' } },
          states: {
            usable: {
              meta: { isGroup: true },
              initial: 'unknown',
              on: {
                'provider.embedding_sent': {},
                'provider.trial_started': { guard: 'startsModelTrial' },
                'provider.answered': { guard: 'mendsModel' },
                'provider.faulted': [
                  { guard: 'refuses', target: 'refusing.unauthorised' },
                  { guard: 'limits', target: 'refusing.rate_limited' },
                  { guard: 'opens', target: 'refusing.unavailable' },
                  { guard: 'isNews', target: '.degraded' },
                ],
              },
              states: {
                unknown: {
                  meta: { says: ['plain', 'It was not asked yet.'], deadline: 'next_probe' },
                  on: { 'provider.answered': 'available' },
                },
                available: { meta: { says: ['good', 'It answers.'] }, tags: ['settled'] },
                degraded: {
                  meta: {
                    says: ['warn', 'Its last answer failed. It is still asked.'],
                    deadline: 'next_probe',
                  },
                  on: { 'provider.answered': 'available' },
                },
              },
            },
            refusing: {
              meta: { isGroup: true, deadline: 'retry' },
              tags: ['settled'],
              initial: 'unavailable',
              states: {
                unavailable: {
                  meta: {
                    says: [
                      'bad',
                      'It failed several times in a row, so it is not asked for a while.',
                    ],
                  },
                  on: {
                    'provider.wait_ended': '#provider.configured.idle.half_open',
                    'provider.answered': '#provider.configured.idle.usable.available',
                  },
                },
                rate_limited: {
                  meta: { says: ['warn', 'It asked for a pause.'] },
                  on: { 'provider.wait_ended': '#provider.configured.idle.half_open' },
                },
                unauthorised: {
                  meta: { says: ['bad', 'It refuses the key.'] },
                  on: {
                    'provider.wait_ended': '#provider.configured.idle.half_open',
                    'provider.answered': '#provider.configured.idle.usable.available',
                  },
                },
              },
            },
            half_open: {
              initial: 'ready',
              on: { 'provider.answered': 'usable.available' },
              states: {
                ready: {
                  meta: { says: ['warn', 'The next request tries whether it answers again.'] },
                  on: { 'provider.trial_started': { guard: 'triesProvider', target: 'trying' } },
                },
                trying: {
                  meta: {
                    says: ['active', 'One request tries whether it answers again.'],
                    deadline: 'trial',
                  },
                  on: {
                    'provider.embedding_sent': {},
                    'provider.trial_abandoned': { guard: 'isThisTrial', target: 'ready' },
                    'provider.faulted': [
                      {
                        guard: 'refuses',
                        target: '#provider.configured.idle.refusing.unauthorised',
                      },
                      {
                        guard: 'limits',
                        target: '#provider.configured.idle.refusing.rate_limited',
                      },
                      {
                        guard: 'isOfOneModel',
                        target: '#provider.configured.idle.usable.degraded',
                      },
                      { guard: 'isNews', target: '#provider.configured.idle.refusing.unavailable' },
                    ],
                  },
                },
              },
            },
          },
        },
        probing: {
          meta: { says: ['active', 'The daemon looks whether it answers.'], deadline: 'probe' },
          entry: {
            type: 'probeProvider',
            params: ({ context: { provider_id, probe } }) => ({ provider_id, probe }),
          },
          on: {
            'provider.probe_succeeded': { guard: 'isThisProbe', target: 'idle.usable.available' },
            'provider.probe_failed': [
              { guard: 'refusesThisProbe', target: 'idle.refusing.unauthorised' },
              { guard: 'limitsThisProbe', target: 'idle.refusing.rate_limited' },
              { guard: 'opensThisProbe', target: 'idle.refusing.unavailable' },
              { guard: 'isThisProbe', target: 'idle.usable.degraded' },
            ],
            'provider.answered': 'idle.usable.available',
            'provider.embedding_sent': {},
            'provider.trial_started': { guard: 'startsModelTrial' },
          },
        },
      },
    },
    removed: { meta: { says: ['plain', 'It was removed.'] }, type: 'final' },
  },
});

export type ProviderSnapshot = SnapshotFrom<typeof chart>;

const PROBE_TIMEOUT: Failure = {
  code: 'provider_unreachable',
  message: 'The provider did not answer its probe in time.',
  retryable: true,
};

const deadlines: Deadlines<ProviderSnapshot, ProviderEvent> = {
  probe: ({ context: { kind, probe, due_at: at, probe_timeout_ms } }) => {
    // Without a time, only a probe closes the circuit. No probe comes by itself for a cloud one.
    const retry = kind === 'cloud' ? { retry_at: at + probe_timeout_ms } : {};
    const event = { probe, error: PROBE_TIMEOUT, unauthorised: false, ...retry } as const;
    return { at, event: { type: 'provider.probe_failed', ...event } };
  },
  trial: ({ context: { due_at, trial } }) => ({
    at: due_at,
    event: { type: 'provider.trial_abandoned', trial: trial ?? '' },
  }),
  retry: ({ context: { retry_at } }) =>
    retry_at === null ? null : { at: retry_at, event: { type: 'provider.wait_ended' } },
  next_probe: ({ context: { probe, probe_every_ms, due_at } }) =>
    probe_every_ms === null
      ? null
      : { at: due_at, event: { type: 'provider.probe_started', probe: probe + 1 } },
};

export const providerMachine = withRules(chart, { evolve, deadlines });
