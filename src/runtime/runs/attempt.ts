import type { SvcError } from '../../errors.ts';
import type { RunKey } from '../../kernel/stream.ts';

/**
 * One attempt in progress.
 *
 * 1. Its signal aborts when it is stopped, and when its answer is cut. An aborted one stays so.
 * 2. A stopped attempt records no failure: the log already has why it was stopped.
 * 3. An attempt that is cut, and not stopped, fails with `cut`, whatever its provider throws.
 */
export class Attempt {
  readonly run_id: RunKey;
  readonly attempt: number;
  isStopped = false;
  /** Why the rest of the answer is not read. */
  cut: SvcError | null = null;
  private readonly reading = new AbortController();

  constructor(run_id: RunKey, attempt: number) {
    this.run_id = run_id;
    this.attempt = attempt;
  }

  get signal(): AbortSignal {
    return this.reading.signal;
  }

  stop(): void {
    this.isStopped = true;
    this.reading.abort(STOPPED);
  }

  cutOff(why: SvcError): void {
    this.cut = why;
    this.reading.abort();
  }
}

/** An abort without a reason makes an error with its stack. Many runs may stop at one time. */
const STOPPED = new DOMException('The attempt was stopped.', 'AbortError');
