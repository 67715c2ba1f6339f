import type { ModelRecord } from '../../src/contract/model-record.ts';
import { SvcError } from '../../src/errors.ts';
import type { AttemptRequest, OutputPart, ProviderPort } from '../../src/ports/providers.ts';

export type Move = 'say' | 'finish' | 'fail' | 'refuse' | 'lose' | 'cut';

/** One answer that waits for the test to say how it goes on. */
class StepQueue {
  private readonly moves: Move[] = [];
  private wake: () => void = () => undefined;

  put(move: Move): void {
    this.moves.push(move);
    this.wake();
  }

  /** The next move; null once the work is to stop. */
  async take(signal: AbortSignal): Promise<Move | null> {
    for (;;) {
      if (signal.aborted) return null;
      const move = this.moves.shift();
      if (move !== undefined) return move;
      await new Promise<void>((resolve) => {
        this.wake = resolve;
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
    }
  }
}

/**
 * A provider whose answers go on move by move. A stubborn one ignores a stop until the test
 * releases it.
 */
export class SteppedProvider implements ProviderPort {
  readonly id: string;
  readonly answers = new Set<StepQueue>();
  stubborn = false;
  private letGo: () => void = () => undefined;

  constructor(id: string) {
    this.id = id;
  }

  /** Ends the work that ignored its stop. */
  release(): void {
    this.stubborn = false;
    this.letGo();
  }

  async *stream(_: AttemptRequest, signal: AbortSignal): AsyncIterable<OutputPart> {
    const answer = new StepQueue();
    this.answers.add(answer);
    try {
      for (
        let move = await answer.take(signal);
        move !== null && move !== 'cut';
        move = await answer.take(signal)
      ) {
        if (move === 'say') yield { type: 'output', text: 'text ', token_ids: [1] };
        else if (move === 'finish') {
          yield {
            type: 'finish',
            finish_reason: 'stop',
            usage: { input_tokens: 1, output_tokens: 1 },
          };
          return;
        } else throw failure(move);
      }
      while (this.stubborn) await new Promise<void>((resolve) => (this.letGo = resolve));
    } finally {
      this.answers.delete(answer);
    }
  }

  models(): Promise<ModelRecord[]> {
    return Promise.resolve([]);
  }

  probe(): Promise<{ models: string[] }> {
    return Promise.resolve({ models: ['m'] });
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

function failure(move: 'fail' | 'refuse' | 'lose'): SvcError {
  if (move === 'fail') return new SvcError('provider_failed', 'As told.', { retryable: true });
  if (move === 'refuse') return new SvcError('provider_rejected', 'As told.', { retryable: false });
  return new SvcError('engine_crashed', 'As told.', { retryable: true, lost: true });
}
