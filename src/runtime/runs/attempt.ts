import type { RunContext } from '../../../machines/run-context.ts';
import type { SvcError } from '../../errors.ts';
import { pagesOf } from '../../kernel/pages.ts';
import type { RunKey } from '../../kernel/stream.ts';
import type { Resume } from '../../providers/port.ts';
import type { EventStore } from '../../store/port.ts';

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

/** What the log has of a run's present answer. */
export async function recordedAnswer(
  store: EventStore,
  run_id: string,
  { output, parts, threads, batched, model_file, prompt_parts }: RunContext,
): Promise<Resume> {
  const token_ids = await recordedTokens(store, run_id);
  return {
    text: output,
    parts,
    token_ids,
    threads,
    batched,
    model_file,
    ...(prompt_parts ? { prompt_parts } : {}),
  };
}

/** The recorded tokens, in order. The provider continues from them. */
async function recordedTokens(store: EventStore, run_id: string): Promise<number[]> {
  let token_ids: number[] = [];
  for await (const page of pagesOf(store, run_id)) {
    for (const { type, data } of page) {
      if (type === 'run.started' && data.resumes !== true) token_ids = [];
      if (type === 'run.output_appended') token_ids.push(...(data.token_ids as number[]));
    }
  }
  return token_ids;
}
