import type { Failure } from '../../../machines/events.ts';
import type { PullCreated, PullEvent } from '../../../machines/pull.ts';
import { type PullSnapshot, pullMachine } from '../../../machines/pull.ts';
import { type Model, model, NOW } from './model.ts';

const retryable: Failure = {
  code: 'pull_failed',
  message: 'The other side stopped sending.',
  retryable: true,
};
const lasting: Failure = {
  code: 'model_unknown',
  message: 'There is no such model.',
  retryable: false,
};
const source = {
  url: 'https://example.org/m.gguf',
  file: 'm.gguf',
  size_bytes: 100,
  sha256: null,
  etag: null,
  revision: null,
  choices: [],
};

/** `failure_limit` attempts in a row may fail without getting further. */
export function pullModel(failure_limit: number): Model {
  const created: PullCreated = {
    type: 'pull.requested',
    at: NOW - 1000,
    pull_id: 'pull_1',
    reference: 'example.org/m.gguf',
    client: 'test',
    failure_limit,
    idle_ms: 30_000,
    cancel_grace_ms: 1000,
  };
  return model<PullSnapshot>({
    name: 'pull',
    machine: pullMachine,
    created,
    samples: ({ context: { attempt, bytes_most } }): PullEvent[] => [
      ...[attempt, attempt + 1, attempt + 2].map(
        (of): PullEvent => ({ type: 'pull.started', at: NOW, attempt: of }),
      ),
      ...[attempt, attempt - 1, attempt + 1].flatMap((of): PullEvent[] => [
        { type: 'pull.resolved', at: NOW, attempt: of, offset_bytes: 0, ...source },
        { type: 'pull.progressed', at: NOW, attempt: of, bytes: bytes_most },
        { type: 'pull.progressed', at: NOW, attempt: of, bytes: bytes_most + 10 },
        { type: 'pull.downloaded', at: NOW, attempt: of, bytes: 100, existing: false },
        { type: 'pull.hashed', at: NOW, attempt: of, bytes: 50 },
        { type: 'pull.verified', at: NOW, attempt: of, sha256: 'abc', compared: false },
        { type: 'pull.completed', at: NOW, attempt: of, path: '/m.gguf' },
        {
          type: 'pull.attempt_failed',
          at: NOW,
          attempt: of,
          error: retryable,
          retry_at: NOW + 500,
        },
        { type: 'pull.attempt_failed', at: NOW, attempt: of, error: lasting, retry_at: NOW + 500 },
        { type: 'pull.failed', at: NOW, attempt: of, error: lasting },
      ]),
      { type: 'pull.cancel_requested', at: NOW, by: 'test' },
      { type: 'pull.cancelled', at: NOW, forced: true },
      { type: 'pull.cancelled', at: NOW, forced: false },
    ],
    key: ({ value, context }) =>
      JSON.stringify([
        value,
        Math.min(2, context.attempt),
        context.failures,
        context.bytes_most > 0,
        context.sha256 !== null,
      ]),
    stop: { type: 'pull.cancel_requested', at: NOW, by: 'test' },
    isOver: (snapshot) => snapshot.status === 'done',
    least: { states: 84, edges: 156, refused: 2868 },
  });
}
