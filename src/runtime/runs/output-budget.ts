import { SvcError } from '../../errors.ts';
import { Notifier } from '../../kernel/notifier.ts';

interface Answer {
  provider: string;
  bytes: number;
  /** Ends the reading of the answer; null once that was asked. */
  cut: ((failure: SvcError) => void) | null;
}

/**
 * The texts of all answers in progress, which are held in memory. It owns their sizes.
 *
 * 1. When they exceed the bound together, the largest answer of the provider that has most is cut, until the rest fits.
 * 2. An answer counts until its run has recorded its end, cut or not.
 */
export class OutputBudget {
  private readonly bytes_max: number;
  private readonly room = new Notifier();
  private readonly answers = new Map<string, Answer>();

  constructor(bytes_max: number) {
    this.bytes_max = bytes_max;
  }

  /** Calls when an answer has ended and another may begin. */
  onRoom(listener: () => void): void {
    this.room.subscribe(listener);
  }

  /** Whether another answer may begin. */
  get hasRoom(): boolean {
    return sum(this.answers.values()) < this.bytes_max;
  }

  open(run_id: string, provider: string, cut: (failure: SvcError) => void): void {
    this.answers.set(run_id, { provider, bytes: 0, cut });
  }

  add(run_id: string, text: string): void {
    const answer = this.answers.get(run_id);
    if (answer === undefined) return;
    answer.bytes += Buffer.byteLength(text);
    for (let largest = this.excess(); largest !== null; largest = this.excess()) {
      const { cut } = largest;
      largest.cut = null;
      cut?.(cutOff(this.bytes_max));
    }
  }

  close(run_id: string): void {
    this.answers.delete(run_id);
    if (this.hasRoom) this.room.notify();
  }

  /** The answer to cut next; null when those that go on fit. */
  private excess(): Answer | null {
    if (sum(this.answers.values()) <= this.bytes_max) return null;
    const running = [...this.answers.values()].filter(({ cut }) => cut !== null);
    if (sum(running) <= this.bytes_max) return null;
    const byProvider = [...Map.groupBy(running, ({ provider }) => provider).values()];
    const greediest = byProvider.reduce((most, answers) =>
      sum(answers) > sum(most) ? answers : most,
    );
    return greediest.reduce((largest, answer) => (answer.bytes > largest.bytes ? answer : largest));
  }
}

function sum(answers: Iterable<Answer>): number {
  let bytes = 0;
  for (const answer of answers) bytes += answer.bytes;
  return bytes;
}

function cutOff(bytes_max: number): SvcError {
  return new SvcError(
    'provider_failed',
    `All answers in progress are larger together than the daemon holds (${bytes_max} bytes), and this one is the largest of the provider that sends most. It is cut here.`,
    { retryable: false },
  );
}
