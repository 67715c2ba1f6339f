import { Notifier } from '../../async/notifier.ts';
import { ShortLived } from '../../async/short-lived.ts';
import { SvcError } from '../../errors.ts';

interface Answer {
  provider: string;
  bytes: number;
  /** Stops reading the answer. Null once it was called. */
  cut: ((failure: SvcError) => void) | null;
}

/**
 * Bounds the texts of all answers in progress, which are in memory. It owns their sizes.
 *
 * 1. Above the bound, the largest answer of the provider with the most text is cut, until the rest
 *    fits.
 * 2. An answer counts until its run has recorded its end, cut or not.
 */
export class OutputBudget {
  private readonly bytesMax: number;
  private readonly room = new Notifier();
  private readonly answers = new ShortLived<string, Answer>();
  /** Of all answers. */
  private bytes = 0;

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  /** Calls the listener when an answer has ended and another may begin. */
  onRoom(listener: () => void): void {
    this.room.subscribe(listener);
  }

  /** Whether another answer may begin. */
  get hasRoom(): boolean {
    return this.bytes < this.bytesMax;
  }

  open(run_id: string, provider: string, cut: (failure: SvcError) => void): void {
    this.forget(run_id);
    this.answers.set(run_id, { provider, bytes: 0, cut });
  }

  add(run_id: string, text: string): void {
    const answer = this.answers.get(run_id);
    if (answer === undefined) return;
    const bytes = Buffer.byteLength(text);
    answer.bytes += bytes;
    this.bytes += bytes;
    if (this.bytes <= this.bytesMax) return;
    for (let largest = this.nextToCut(); largest !== null; largest = this.nextToCut()) {
      const { cut } = largest;
      largest.cut = null;
      cut?.(cutOff(this.bytesMax));
    }
  }

  close(run_id: string): void {
    this.forget(run_id);
    if (this.hasRoom) this.room.notify();
  }

  private forget(run_id: string): void {
    this.bytes -= this.answers.get(run_id)?.bytes ?? 0;
    this.answers.delete(run_id);
  }

  /** The answer to cut next. Null: the other answers fit. */
  private nextToCut(): Answer | null {
    const running = [...this.answers.values()].filter(({ cut }) => cut !== null);
    if (sum(running) <= this.bytesMax) return null;
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

function cutOff(bytesMax: number): SvcError {
  return new SvcError(
    'stream_oversized',
    `All answers in progress are larger together than the limit answers_bytes (${bytesMax}). ` +
      'This one is cut: it is the largest of the provider with the most text.',
    { retryable: false },
  );
}
