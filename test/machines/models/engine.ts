import type { EngineCreated, EngineEvent, EngineInfo } from '../../../machines/engine.ts';
import { type EngineSnapshot, engineMachine, KILLS_COUNTED } from '../../../machines/engine.ts';
import type { Failure } from '../../../machines/events.ts';
import { type Model, model, NOW } from './model.ts';

const error: Failure = {
  code: 'model_invalid',
  message: 'The file is not a model.',
  retryable: false,
};
const info: EngineInfo = {
  pid: 7,
  model: 'm',
  path: '/m.gguf',
  threads: 1,
  context_length: 512,
  parallel: 4,
  load_ms: 5,
  chat_template: 'none',
};
const created: EngineCreated = {
  type: 'engine.created',
  at: NOW - 1000,
  start_ms: 3000,
  load_ms: 9000,
  stop_ms: 2000,
  kill_ms: 1000,
  idle_ms: 60_000,
};

export function engineModel(): Model {
  return model<EngineSnapshot>({
    name: 'engine',
    machine: engineMachine,
    created,
    samples: ({ context: { attempt } }): EngineEvent[] => [
      ...[attempt, attempt + 1, attempt + 2].map(
        (of): EngineEvent => ({
          type: 'engine.load_requested',
          at: NOW,
          attempt: of,
          model: 'm',
          path: '/m.gguf',
        }),
      ),
      ...[attempt, attempt - 1, attempt + 1].flatMap((of): EngineEvent[] => [
        { type: 'engine.process_started', at: NOW, attempt: of, pid: 7 },
        { type: 'engine.model_loaded', at: NOW, attempt: of, info },
        { type: 'engine.load_failed', at: NOW, attempt: of, error },
        { type: 'engine.deadline_passed', at: NOW, attempt: of },
        ...[{ signal: 'SIGSEGV' }, { signal: 'SIGKILL', reason: 'outside' as const }].map(
          (end): EngineEvent => ({
            type: 'engine.exited',
            at: NOW,
            attempt: of,
            exit_code: null,
            ...end,
          }),
        ),
      ]),
      { type: 'engine.work_started', at: NOW },
      { type: 'engine.work_finished', at: NOW },
      { type: 'engine.stop_requested', at: NOW, reason: 'idle' },
      { type: 'engine.stop_requested', at: NOW, reason: 'requested' },
      { type: 'engine.backoff_elapsed', at: NOW },
    ],
    key: ({ value, context }) =>
      JSON.stringify([
        value,
        Math.min(2, context.attempt),
        Math.min(KILLS_COUNTED, context.crashes),
      ]),
    stop: { type: 'engine.stop_requested', at: NOW, reason: 'requested' },
    isOver: (snapshot) => snapshot.matches('cold'),
    least: { states: 57, edges: 183, refused: 1128 },
  });
}
