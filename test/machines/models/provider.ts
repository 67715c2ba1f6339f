import type { Failure } from '../../../machines/events.ts';
import { type ProviderSnapshot, providerMachine } from '../../../machines/provider/chart.ts';
import type { ProviderCreated, ProviderEvent } from '../../../machines/provider/context.ts';
import { type Model, model, NOW } from './model.ts';

const error: Failure = {
  code: 'provider_unreachable',
  message: 'The provider does not answer.',
  retryable: true,
};

const EMBEDDING = {
  request: 'embedding_1',
  provider: 'ollama',
  model: 'e5',
  client: 'test',
  estimated_tokens: 1,
};

/**
 * What single models do, and what several do to their provider. The samples are few: each circuit
 * multiplies the states of the provider.
 */
export function faultyModelsModel(failure_limit: number): Model {
  const base = providerModel({ kind: 'cloud', failure_limit });
  const fault = { type: 'provider.faulted', at: NOW, error, unauthorised: false } as const;
  const refused: Failure = { ...error, code: 'provider_unauthorised' };
  const denied = { ...fault, error: refused, unauthorised: true, retry_at: NOW + 9000 };
  const limited = { ...fault, limited: true, retry_at: NOW + 9000 };
  return {
    ...model<ProviderSnapshot>({
      ...(base as unknown as Parameters<typeof model<ProviderSnapshot>>[0]),
      samples: ({ context: { probe } }): ProviderEvent[] => [
        { type: 'provider.probe_started', at: NOW, probe: probe + 1 },
        { type: 'provider.probe_succeeded', at: NOW, probe, models: ['a'] },
        { type: 'provider.probe_succeeded', at: NOW, probe, models: null, asked: true },
        { ...fault, retry_at: NOW + 9000 },
        limited,
        denied,
        { ...fault, model: 'a', retry_at: NOW },
        { ...limited, model: 'a' },
        { ...denied, model: 'a' },
        { ...denied, model: 'b' },
        { type: 'provider.answered', at: NOW, model: 'a' },
        { type: 'provider.answered', at: NOW, model: 'well' },
        { type: 'provider.wait_ended', at: NOW },
        { type: 'provider.trial_started', at: NOW, trial: 'run_1', until: NOW + 7000 },
        { type: 'provider.trial_abandoned', at: NOW, trial: 'run_1' },
        ...['a', 'well'].flatMap((of): ProviderEvent[] => [
          { type: 'provider.trial_started', at: NOW, trial: of, until: NOW + 7000, model: of },
          { type: 'provider.trial_abandoned', at: NOW, trial: of, model: of },
        ]),
        { type: 'provider.key_changed', at: NOW },
        { type: 'provider.removed', at: NOW },
      ],
      key: ({ value, context }) =>
        JSON.stringify([
          value,
          context.failing.toSorted(),
          context.retry_at !== null,
          context.circuits
            .map(({ model, limited, error: { code }, retry_at, trial }) =>
              JSON.stringify([model, limited, code, retry_at, trial?.request]),
            )
            .toSorted(),
        ]),
    }),
    name: 'provider (models)',
    least: { states: 287, edges: 1694, refused: 4333 },
  };
}

/** A local provider is probed by the clock, a cloud provider only when asked. */
export function providerModel({
  kind,
  failure_limit,
}: {
  kind: 'local' | 'cloud';
  failure_limit: number;
}): Model {
  const created: ProviderCreated = {
    type: 'provider.configured',
    at: NOW - 1000,
    provider_id: 'ollama',
    kind,
    adapter: 'openai-compatible',
    base_url: 'http://127.0.0.1:11434/v1',
    failure_limit,
    probe_every_ms: kind === 'local' ? 15_000 : null,
    probe_timeout_ms: 2000,
  };
  return model<ProviderSnapshot>({
    name: `provider (${kind})`,
    machine: providerMachine,
    created,
    samples: ({ context: { probe, trial } }): ProviderEvent[] => [
      ...[probe, probe + 1, probe + 2].map(
        (of): ProviderEvent => ({ type: 'provider.probe_started', at: NOW, probe: of }),
      ),
      ...[probe, probe - 1, probe + 1].flatMap((of): ProviderEvent[] => [
        { type: 'provider.probe_succeeded', at: NOW, probe: of, models: ['llama'] },
        { type: 'provider.probe_succeeded', at: NOW, probe: of, models: [] },
        { type: 'provider.probe_failed', at: NOW, probe: of, error, unauthorised: false },
        { type: 'provider.probe_failed', at: NOW, probe: of, error, unauthorised: true },
        {
          type: 'provider.probe_failed',
          at: NOW,
          probe: of,
          error,
          unauthorised: false,
          limited: true,
          retry_at: NOW + 9000,
        },
      ]),
      { type: 'provider.answered', at: NOW },
      { type: 'provider.faulted', at: NOW, error, unauthorised: false },
      { type: 'provider.faulted', at: NOW, error, unauthorised: true },
      { type: 'provider.faulted', at: NOW, error, unauthorised: false, retry_at: NOW + 5000 },
      {
        type: 'provider.faulted',
        at: NOW,
        error,
        unauthorised: false,
        limited: true,
        retry_at: NOW + 9000,
      },
      { type: 'provider.wait_ended', at: NOW },
      { type: 'provider.trial_started', at: NOW, trial: 'run_1', until: NOW + 7000 },
      { type: 'provider.trial_abandoned', at: NOW, trial: 'run_1' },
      { type: 'provider.trial_abandoned', at: NOW, trial: `not ${trial}` },
      { type: 'provider.embedding_sent', at: NOW, ...EMBEDDING, texts: 1, bytes: 4 },
      { type: 'provider.embedding_counted', at: NOW, ...EMBEDDING, sent_at: NOW, input_tokens: 2 },
      { type: 'provider.key_changed', at: NOW },
      { type: 'provider.removed', at: NOW },
    ],
    key: ({ value, context }) =>
      JSON.stringify([
        value,
        Math.min(2, context.probe),
        context.failures,
        context.models.length > 0,
        context.openings,
        context.retry_at === null ? null : context.retry_at - NOW,
      ]),
    stop: { type: 'provider.removed', at: NOW },
    isOver: (snapshot) => snapshot.status === 'done',
    least: { states: 72, edges: 219, refused: 1149 },
  });
}
