import type { Effects } from '../../../machines/effects.ts';
import type { NewEvent, RunEvent } from '../../../machines/events.ts';
import type { RunRequest } from '../../../machines/messages.ts';
import { textOf } from '../../../machines/messages.ts';
import { afterFailure } from '../../../machines/retry.ts';
import type { RunSnapshot } from '../../../machines/run.ts';
import { terminalOf } from '../../../machines/run-next.ts';
import { isIn } from '../../../machines/step.ts';
import { isStoreError, SvcError } from '../../errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { Log } from '../../kernel/port.ts';
import { type RunKey, stream } from '../../kernel/stream.ts';
import type { Limits } from '../../limits.ts';
import type { OutputPart, ProviderPort } from '../../providers/port.ts';
import type { EventStore } from '../../store/port.ts';
import type { OutputBudget } from './output-budget.ts';
import { OutputQueue, placeOf } from './output-queue.ts';
import { recordedTokens } from './recorded-tokens.ts';

/**
 * Executes the attempts of runs. It owns one attempt of each run at a time.
 *
 * 1. Output is recorded before any client sees it.
 * 2. No timer makes batches. The text that arrives during one commit is the next output event.
 * 3. The work of a run has stopped only when its provider's stream has ended.
 * 4. The texts of all answers in progress share one bound. See `output-budget.ts`.
 */

export interface RunExecutorOptions {
  kernel: Kernel;
  store: EventStore;
  limits: Limits;
  log: Log;
  /** Undefined if the provider was removed, or the run must not go to it. */
  provider(request: RunRequest): ProviderPort | undefined;
  /** Gets the outcome of each attempt, for the state of its provider. */
  onOutcome(provider: string, failure: SvcError | null): void;
  /** Bounds the texts of all answers in progress. */
  outputs: OutputBudget;
}

export class RunExecutor {
  private readonly options: RunExecutorOptions;
  private readonly live = new Map<RunKey, { attempt: number; abort: AbortController }>();

  constructor(options: RunExecutorOptions) {
    this.options = options;
  }

  /** Begins an attempt, unless it has begun before or is no longer the present one. */
  start({ run_id: id, attempt }: Effects['startAttempt']): void {
    const run_id = stream.run(id);
    const tail = this.options.kernel.tail(run_id);
    if (
      tail === undefined ||
      !isIn(tail, 'starting') ||
      tail.context.attempt !== attempt ||
      this.live.get(run_id)?.attempt === attempt
    )
      return;
    const mine = { attempt, abort: new AbortController() };
    this.live.set(run_id, mine);
    this.work(run_id, attempt, mine.abort)
      .catch((error: unknown) =>
        this.options.log.error(
          { err: error, run_id },
          'the outcome of an attempt could not be recorded',
        ),
      )
      .finally(() => {
        if (this.live.get(run_id) !== mine) return;
        this.live.delete(run_id);
        this.options.outputs.close(run_id);
      });
  }

  stop({ run_id: id }: Effects['stopAttempt']): void {
    const run_id = stream.run(id);
    const live = this.live.get(run_id);
    if (live !== undefined) live.abort.abort();
    else
      this.recordEnd(run_id).catch((error: unknown) =>
        this.options.log.error({ err: error, run_id }, 'the end of a run could not be recorded'),
      );
  }

  private async work(run_id: RunKey, attempt: number, abort: AbortController): Promise<void> {
    const { kernel, onOutcome } = this.options;
    const { request } = (kernel.tail(run_id) as RunSnapshot).context;
    try {
      const finish = await this.consume(run_id, attempt, abort);
      onOutcome(request.provider, null);
      await kernel.tryAppend(run_id, {
        type: 'run.completed',
        attempt,
        finish_reason: finish.finish_reason,
        usage: finish.usage,
        ...(finish.stop_sequence === undefined ? {} : { stop_sequence: finish.stop_sequence }),
      });
    } catch (thrown) {
      if (!abort.signal.aborted) {
        const failure = asFailure(thrown);
        this.options.log.warn(
          {
            run_id,
            attempt,
            provider: request.provider,
            code: failure.code,
            err: failure.cause ?? failure,
          },
          failure.message,
        );
        onOutcome(request.provider, failure);
        await this.recordFailure(run_id, failure);
      }
    }
    await this.recordEnd(run_id);
  }

  /** Reads and records the provider's stream to its end. Throws unless it ends with a finish. */
  private async consume(
    run_id: RunKey,
    attempt: number,
    abort: AbortController,
  ): Promise<Extract<OutputPart, { type: 'finish' }>> {
    const { kernel, store, limits, provider } = this.options;
    const { request, output, parts, outputs, threads } = (kernel.tail(run_id) as RunSnapshot)
      .context;
    const resume =
      outputs > 0
        ? { text: output, parts, token_ids: await recordedTokens(store, run_id), threads }
        : null;
    const port = provider(request);
    if (port === undefined)
      throw new SvcError(
        'provider_unknown',
        `The provider ${request.provider} was removed or changed since the run was accepted.`,
        { retryable: false },
      );

    let cut: SvcError | null = null;
    const reading = new AbortController();
    this.options.outputs.open(run_id, request.provider, (failure) => {
      cut = failure;
      reading.abort();
    });
    if (resume !== null) {
      this.options.outputs.add(run_id, output);
      for (const part of parts) this.options.outputs.add(run_id, textOf(part));
    }

    const waiting = new OutputQueue();
    let recording: Promise<void> | null = null;
    const record = async () => {
      for (let output = waiting.take(); output !== null; output = waiting.take()) {
        const { context } = kernel.tail(run_id) ?? {};
        const { threads: computing, ...recorded } = output;
        const event = {
          type: 'run.output_appended',
          attempt,
          ...recorded,
          ...(kernel.omitsOutput && context !== undefined ? placeOf(output, context) : {}),
          ...(computing === undefined || computing === context?.threads
            ? {}
            : { threads: computing }),
        } as const;
        if (!(await kernel.tryAppend(run_id, event))) abort.abort();
      }
      recording = null;
    };

    const startRecording = () => {
      if (recording !== null) return;
      recording = record();
      // The code below awaits it. It may fail earlier.
      recording.catch(() => {});
    };

    let finish: Extract<OutputPart, { type: 'finish' }> | null = null;
    try {
      for await (const part of port.stream(
        { run_id, attempt, request, resume },
        AbortSignal.any([abort.signal, reading.signal]),
      )) {
        if (part.type === 'finish') {
          finish = part;
          continue;
        }
        this.options.outputs.add(run_id, part.text);
        waiting.add(part);
        if (waiting.length > 0) startRecording();
        if (waiting.characters > limits.output_buffer_bytes) await recording;
        if (abort.signal.aborted || reading.signal.aborted) break;
      }
    } catch (thrown) {
      throw cut ?? thrown;
    } finally {
      await recording;
    }
    if (cut !== null) throw cut;
    if (finish === null)
      throw new SvcError(
        'stream_truncated',
        'The provider ended its stream before the answer was complete.',
        { retryable: true, lost: true },
      );
    return finish;
  }

  private async recordFailure(run_id: RunKey, failure: SvcError): Promise<void> {
    const { kernel } = this.options;
    const tail = kernel.tail(run_id);
    if (tail === undefined) return;
    const { lost, computing, retryAfterMs: retry_after_ms } = failure;
    await kernel.tryAppend(
      run_id,
      afterFailure(tail.context, failure.summary(), kernel.clock.now(), {
        lost,
        computing,
        retry_after_ms,
      }),
    );
  }

  /** Records the end of a run whose work was being stopped. */
  private async recordEnd(run_id: RunKey): Promise<void> {
    const { kernel } = this.options;
    const tail = kernel.tail(run_id);
    const end: NewEvent<RunEvent> | null = tail === undefined ? null : terminalOf(tail, false);
    if (end !== null) await kernel.tryAppend(run_id, end);
  }
}

/** Providers throw SvcError. A store error is not a failure of the provider. */
function asFailure(thrown: unknown): SvcError {
  if (thrown instanceof SvcError && !isStoreError(thrown)) return thrown;
  return new SvcError('provider_failed', 'The provider failed in an unexpected way.', {
    retryable: false,
    cause: thrown,
  });
}
