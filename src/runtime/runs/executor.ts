import type { Effects } from '../../../machines/effects.ts';
import type { NewEvent } from '../../../machines/events.ts';
import {
  ANSWER_EMPTY,
  afterFailure,
  isEmptyAnswer,
  RETRY_LONGEST_MS,
} from '../../../machines/retry.ts';
import type { RunSnapshot } from '../../../machines/run/chart.ts';
import type { RunContext, RunEvent } from '../../../machines/run/context.ts';
import { terminalOf } from '../../../machines/run/next.ts';
import { afterAnswer, isServed, requestNow } from '../../../machines/run/turns.ts';
import { LOCAL } from '../../../machines/runs-to-start.ts';
import { isIn } from '../../../machines/step.ts';
import { ShortLived } from '../../async/short-lived.ts';
import type { RunRequest } from '../../contract/messages/parts.ts';
import { opaqueOf, textOf } from '../../contract/messages/parts.ts';
import { asSvcError, fromBody, hasCode, SvcError } from '../../errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { pagesOf } from '../../kernel/pages.ts';
import type { EventStore } from '../../kernel/store/port.ts';
import { type RunKey, stream } from '../../kernel/stream.ts';
import type { Limits } from '../../limits.ts';
import type { Log } from '../../ports/log.ts';
import type { OutputPart, ProviderPort, Resume } from '../../ports/providers.ts';
import type { AnswerJudge, AskedForm } from '../judge/judge.ts';
import type { Asking, Outcome, Patience, Usable } from '../providers/admission.ts';
import { askAgainOr, formOf, judgeForm, withoutFence } from './answer-form.ts';
import type { OutputBudget } from './output-recorder.ts';
import { OutputRecorder } from './output-recorder.ts';
import { fairName } from './record.ts';
import { asFailure } from './run-errors.ts';
import { bytesOf, discardImplausibleCounts, withoutShell } from './usage-of.ts';

/**
 * Executes the attempts of runs. It owns one attempt of each run at a time.
 *
 * 1. Output is recorded before any client sees it. See `output-recorder.ts`.
 * 2. The end of a run follows its output at once, and mostly shares its commit.
 * 3. The work of a run has stopped only when its provider's stream has ended.
 * 4. The texts of all answers in progress share one bound. See `OutputBudget`.
 * 5. Nothing goes to a cloud provider before the log says so.
 * 6. A provider that is silent is given up early when the run has another target.
 */

export interface RunExecutorOptions {
  kernel: Kernel;
  store: EventStore;
  limits: Limits;
  log: Log;
  /** Undefined if the provider was removed, or the run must not go to it. */
  provider(request: RunRequest): ProviderPort | undefined;
  /** Why the cloud target of an attempt must not be called; null if it may. */
  refusal(context: RunContext): Promise<SvcError | null>;
  /** Admits an attempt if its provider is usable now. */
  enter(provider: string, asking: Asking, patience?: Patience): Promise<Usable>;
  /** When an unusable model is retried. Null: unknown, or it is usable. */
  retryAt(provider: string, model: string): number | null;
  /** Called with the outcome of each admitted attempt. The state of the provider depends on it. */
  onOutcome(provider: string, outcome: Outcome, asking: Asking): void;
  /** Bounds the texts of all answers in progress. */
  outputs: OutputBudget;
  /** Compares answers with the schemas of their clients. */
  judge: AnswerJudge;
  /** From 0 to 1, for the jitter of waits. */
  random?: () => number;
}

export class RunExecutor {
  private readonly options: RunExecutorOptions;
  private readonly live = new ShortLived<RunKey, Attempt>();

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
    const mine = new Attempt(run_id, attempt);
    this.live.set(run_id, mine);
    this.work(mine)
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
    if (live !== undefined) live.stop();
    else
      this.recordEnd(run_id).catch((error: unknown) =>
        this.options.log.error({ err: error, run_id }, 'the end of a run could not be recorded'),
      );
  }

  private async work(mine: Attempt): Promise<void> {
    const { run_id } = mine;
    const { kernel, refusal } = this.options;
    const { context } = kernel.tail(run_id) as RunSnapshot;
    const { request } = context;
    const settleOutcome = (outcome: Outcome) => this.recordOutcome(mine, request, outcome);
    let entered = false;
    try {
      const refused = request.cloud ? await refusal(context) : null;
      if (refused !== null) throw refused;
      await this.enter(mine, context);
      entered = true;
      const { type: _, ...end } = await this.consume(mine);
      settleOutcome('answered');
      const answered = (kernel.tail(run_id) as RunSnapshot).context;
      const event = afterAnswer(answered, end, this.options.limits);
      const judged = await judgeForm(event, answered, (form) => this.compare(answered, form));
      await kernel.tryAppend(run_id, askAgainOr(judged, answered, end.usage));
    } catch (thrown) {
      if (mine.isStopped) {
        if (entered) settleOutcome(this.stall(run_id) ?? 'abandoned');
      } else {
        const failure = asFailure(thrown);
        this.logFault(run_id, thrown);
        if (entered) settleOutcome(failure);
        await this.recordFailure(run_id, failure, !entered || hasCode(failure, 'provider_silent'));
      }
    }
    await this.recordEnd(run_id);
  }

  /** Why an answer does not fit its form. Null: it fits. */
  private async compare(
    { output, asked_by, client }: RunContext,
    form: AskedForm,
  ): Promise<string | null> {
    const owner = fairName({ asked_by, client: withoutShell(client) });
    try {
      return await this.options.judge.compare(output, form, owner);
    } catch (error) {
      return `svc cannot compare it with its form now: ${asSvcError(error).message}`;
    }
  }

  /**
   * The event of the failure has its message, and the log a line of that event. A fault of svc
   * itself needs a stack too.
   */
  private logFault(run_id: RunKey, thrown: unknown): void {
    const { log } = this.options;
    const isKnown = thrown instanceof SvcError && thrown.code !== 'internal';
    if (isKnown) log.debug({ run_id, err: thrown.cause ?? thrown }, 'an attempt failed');
    else log.error({ run_id, err: thrown }, 'an attempt failed in an unexpected way');
  }

  /**
   * Throws unless the provider is usable now. The absence of a removed provider is found later. A
   * run with another target does not wait for a request that tries this one.
   */
  private async enter(
    { run_id, signal }: Attempt,
    { request, fallbacks }: RunContext,
  ): Promise<void> {
    const { kernel, enter } = this.options;
    const patience = { wait_ms: RETRY_LONGEST_MS, signal };
    const usable = await enter(
      request.provider,
      { request: run_id, model: request.model },
      fallbacks.length > 0 ? undefined : patience,
    );
    if (usable.ok || usable.code === 'provider_unknown') return;
    const { ok: _, code, reason, until, ...advice } = usable;
    throw new SvcError(code, reason, {
      ...advice,
      retryAfterMs: until === null ? null : Math.max(0, until - kernel.clock.now()),
    });
  }

  private recordOutcome(
    { run_id }: Attempt,
    { provider, model }: RunRequest,
    outcome: Outcome,
  ): void {
    this.options.onOutcome(provider, outcome, { request: run_id, model });
  }

  /** The failure of a provider that did not send in time; null for any other abort. */
  private stall(run_id: RunKey): SvcError | null {
    const error = this.options.kernel.tail(run_id)?.context.error ?? null;
    return error !== null && STALLS.has(error.code) ? fromBody(error) : null;
  }

  /**
   * Reads the provider's stream to its end, and proposes its output. Throws unless it ends with a
   * finish.
   */
  private async consume(mine: Attempt): Promise<Extract<OutputPart, { type: 'finish' }>> {
    const { run_id, attempt } = mine;
    const { kernel, store, limits, provider } = this.options;
    const { context } = kernel.tail(run_id) as RunSnapshot;
    const { asked_by, output, parts } = context;
    const request = requestNow(context);
    const { tools = [] } = context.request;
    const servers = new Map(tools.map(({ name, server }) => [name, server]));
    const unknown = tools.some(isServed) ? '' : undefined;
    const client = fairName({ asked_by, client: withoutShell(context.client) });
    const resume = context.outputs === 0 ? null : await recordedAnswer(store, run_id, context);
    const port = provider(request);
    if (port === undefined)
      throw new SvcError(
        'provider_unknown',
        `The provider ${request.provider} was removed or changed since the run was accepted.`,
        { retryable: false },
      );

    if (request.cloud) await this.recordSent(mine, request);
    // Its grammar mostly keeps the form of a local answer.
    if (request.provider !== LOCAL && formOf(request) !== null) this.options.judge.warmUp();
    this.options.outputs.open(run_id, request.provider, (why) => mine.cutOff(why));
    const stopSilenceTimer = this.startSilenceTimer(context, (why) => mine.cutOff(why));
    if (resume !== null) {
      this.options.outputs.add(run_id, output);
      for (const part of parts) this.options.outputs.add(run_id, textOf(part) + opaqueOf(part));
    }
    const recorder = new OutputRecorder({
      kernel,
      run_id,
      attempt,
      characters_max: limits.output_buffer_bytes,
      onRefused: () => mine.stop(),
    });

    let began = false;
    let finish: Extract<OutputPart, { type: 'finish' }> | null = null;
    try {
      const asked = { run_id, attempt, client, request, resume };
      for await (const part of withoutFence(port.stream(asked, mine.signal), request)) {
        stopSilenceTimer();
        if (part.type === 'finish') {
          finish = part;
          continue;
        }
        if (!began) this.recordOutcome(mine, request, 'began');
        began = true;
        this.options.outputs.add(run_id, part.text + (part.opaque?.data ?? ''));
        const full = recorder.add(
          withAuthor(withServer(part, servers, unknown), request, port.returns),
        );
        if (full !== null) await full;
        if (mine.signal.aborted) break;
      }
    } catch (thrown) {
      throw mine.cut ?? thrown;
    } finally {
      stopSilenceTimer();
      // The event that ends the run is proposed next. It fails if this one fails.
      recorder.propose().catch(() => {});
    }
    if (mine.cut !== null) throw mine.cut;
    if (finish === null)
      throw new SvcError(
        'stream_truncated',
        'The provider ended its stream before the answer was complete.',
        { retryable: true, lost: true },
      );
    if (!began && context.outputs === 0 && isEmptyAnswer(context, finish))
      throw new SvcError(
        ANSWER_EMPTY,
        `${request.provider} answered with nothing: its answer ended without any output.`,
      );
    return { ...finish, usage: discardImplausibleCounts(finish.usage, began || resume !== null) };
  }

  /** Throws if the run has ended meanwhile: then nothing is sent. */
  private async recordSent(mine: Attempt, request: RunRequest): Promise<void> {
    const { provider, model } = request;
    const { attempt } = mine;
    const event = { type: 'run.sent_to_cloud', attempt, provider, model } as const;
    const sent = { ...event, bytes: bytesOf(request) };
    if (await this.options.kernel.tryAppend(mine.run_id, sent)) return;
    mine.stop();
    throw new Error('The run has ended.');
  }

  /**
   * Gives up a target if the run has another one and this one stays silent. Call the returned
   * function when output arrives.
   */
  private startSilenceTimer(
    { fallbacks, first_output_ms }: RunContext,
    giveUp: (why: SvcError) => void,
  ): () => void {
    if (fallbacks.length === 0) return () => {};
    // The deadline of the machine would end the run.
    const wait_ms = Math.min(this.options.limits.target_wait_ms, first_output_ms / 2);
    const message = `The provider did not begin to answer within ${wait_ms / 1000} s.`;
    const silent = () => giveUp(new SvcError('provider_silent', message));
    return this.options.kernel.clock.after(wait_ms, silent);
  }

  private async recordFailure(
    run_id: RunKey,
    failure: SvcError,
    triesNextTarget: boolean,
  ): Promise<void> {
    const { kernel } = this.options;
    const tail = kernel.tail(run_id);
    if (tail === undefined) return;
    const { lost, computing, retryAfterMs } = failure;
    const { provider, model } = tail.context.request;
    const until = this.options.retryAt(provider, model);
    const wait_ms = until === null ? 0 : until - kernel.clock.now();
    const retry_after_ms = wait_ms > 0 ? Math.max(wait_ms, retryAfterMs ?? 0) : retryAfterMs;
    await kernel.tryAppend(
      run_id,
      afterFailure(tail.context, failure.summary(), kernel.clock.now(), {
        lost,
        computing,
        retry_after_ms,
        isOwnWait: wait_ms > (retryAfterMs ?? 0),
        leave: triesNextTarget,
        jitter: (this.options.random ?? Math.random)(),
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

type Output = Extract<OutputPart, { type: 'output' }>;

/**
 * A call that svc carries out names its server, so that no client takes it for its own. `unknown`:
 * the server of a call whose tool does not exist.
 */
function withServer(
  part: Output,
  servers: ReadonlyMap<string, string | undefined>,
  unknown: string | undefined,
): Output {
  const name = part.call?.name ?? '';
  const server = servers.has(name) ? servers.get(name) : unknown;
  return part.call === undefined || server === undefined
    ? part
    : { ...part, call: { ...part.call, server } };
}

/** Opaque data is for this provider and model alone, and only if the provider accepts its form. */
function withAuthor(
  part: Output,
  { provider, model }: RunRequest,
  forms: readonly string[] = [],
): Output {
  if (part.opaque === undefined) return part;
  const { opaque, ...rest } = part;
  return forms.includes(opaque.form) ? { ...rest, opaque: { ...opaque, provider, model } } : rest;
}

/** Codes of an attempt that a deadline ended because its provider was silent. */
const STALLS: ReadonlySet<string> = new Set(['provider_silent', 'provider_stalled']);

/**
 * One attempt in progress.
 *
 * 1. Its signal aborts when it is stopped, and when its answer is cut. An aborted signal stays
 *    aborted.
 * 2. A stopped attempt records no failure: the log already has why it was stopped.
 * 3. An attempt that is cut, and not stopped, fails with `cut`, whatever its provider throws.
 */
class Attempt {
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

/** The recorded part of a run's present answer. */
async function recordedAnswer(
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
