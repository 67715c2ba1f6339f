import type { NewEvent } from '../../../machines/events.ts';
import type { RunContext, RunEvent } from '../../../machines/run/context.ts';
import { Notifier } from '../../async/notifier.ts';
import { ShortLived } from '../../async/short-lived.ts';
import type { RunOutput, TokenLogprob } from '../../contract/messages/parts.ts';
import { partOf, textOf } from '../../contract/messages/parts.ts';
import { SvcError } from '../../errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { RunKey } from '../../kernel/stream.ts';
import type { OutputPart } from '../../ports/providers.ts';

export interface OutputRecorderOptions {
  kernel: Kernel;
  run_id: RunKey;
  attempt: number;
  /** Characters that may wait for a commit. */
  characters_max: number;
  /** The run takes no more output, such as after a cancel. */
  onRefused(): void;
}

/**
 * Records the output of one attempt. It owns the pieces that are not proposed yet.
 *
 * 1. Pieces are proposed in their order.
 * 2. No timer makes batches. The pieces of one turn are proposed together, and so are those that
 *    arrive during a commit.
 * 3. `propose` takes all waiting pieces at once, so that the end of a run shares their commit.
 */
export class OutputRecorder {
  private readonly options: OutputRecorderOptions;
  private readonly waiting = new OutputQueue();
  private recording: Promise<void> | null = null;

  constructor(options: OutputRecorderOptions) {
    this.options = options;
  }

  /** Returns what to wait for before the next piece; null: nothing. */
  add(piece: Extract<OutputPart, { type: 'output' }>): Promise<void> | null {
    const { waiting } = this;
    waiting.add(piece);
    if (waiting.length > 0 && this.recording === null) {
      this.recording = this.record();
      // An append that fails is reported to the next one, too.
      this.recording.catch(() => {});
    }
    return waiting.characters > this.options.characters_max ? this.recording : null;
  }

  /** Proposes all waiting pieces. Resolves once they are durable. */
  async propose(): Promise<void> {
    const proposed: Promise<boolean>[] = [];
    for (let output = this.waiting.take(); output !== null; output = this.waiting.take())
      proposed.push(this.options.kernel.tryAppend(this.options.run_id, this.eventOf(output)));
    const taken = await Promise.all(proposed);
    if (taken.includes(false)) this.options.onRefused();
  }

  private async record(): Promise<void> {
    await endOfTurn();
    while (this.waiting.length > 0) await this.propose();
    this.recording = null;
  }

  private eventOf({
    threads,
    batched,
    model_file,
    prompt_parts,
    ...output
  }: NonNullable<ReturnType<OutputQueue['take']>>): NewEvent<RunEvent> {
    const { kernel, run_id, attempt } = this.options;
    const context = kernel.tail(run_id)?.context;
    return {
      type: 'run.output_appended',
      attempt,
      ...output,
      ...(kernel.omitsOutput && context !== undefined ? placeOf(output, context) : {}),
      ...(threads === undefined || threads === context?.threads ? {} : { threads }),
      ...(batched === true && context?.batched !== true ? { batched } : {}),
      ...(model_file === undefined || model_file === context?.model_file ? {} : { model_file }),
      ...(prompt_parts === undefined || context?.prompt_parts ? {} : { prompt_parts }),
    };
  }
}

type Output = Omit<Extract<OutputPart, { type: 'output' }>, 'type'>;
/** The queue adds to its own lists: a copy for each piece would cost the square of the pieces. */
type Waiting = Output & { logprobs?: TokenLogprob[] };

/**
 * The output of one attempt that is not recorded yet, in order.
 *
 * 1. Pieces of one kind in a row are one output. A tool call with another id begins a new one.
 * 2. A piece of a tool call without tokens is appended to the queued output of the same call. Other
 *    output may have been queued after it: the answer is the same, since a call is one part. Tokens
 *    stay in their order.
 * 3. A piece without text, tokens, call or probabilities is dropped.
 */
export class OutputQueue {
  private outputs: Waiting[] = [];
  /** Characters of all outputs in the queue, and about as many as their probabilities need. */
  characters = 0;

  get length(): number {
    return this.outputs.length;
  }

  add({ type: _, ...output }: Extract<OutputPart, { type: 'output' }>): void {
    const { text, token_ids, call, logprobs, opaque } = output;
    const isEmpty = text === '' && token_ids.length === 0;
    if (isEmpty && (call ?? logprobs ?? opaque) === undefined) return;
    this.characters += lengthOf(output);
    const waiting = this.openFor(output);
    if (waiting !== undefined) join(waiting, output);
    else this.outputs.push(ownOf(output));
  }

  /** The output that the piece continues. */
  private openFor({ kind, call, token_ids, logprobs, opaque }: Output): Waiting | undefined {
    // Opaque data ends its part, so it is a separate output.
    if (opaque !== undefined) return undefined;
    const isSame = (waiting: Waiting | undefined) =>
      waiting?.kind === kind && waiting?.call?.id === call?.id && waiting?.opaque === undefined;
    if (kind === 'tool_call' && token_ids.length === 0 && logprobs === undefined)
      return this.outputs.findLast(isSame);
    const last = this.outputs.at(-1);
    return isSame(last) ? last : undefined;
  }

  /** Removes the first output. Null: the queue is empty. */
  take(): Output | null {
    const first = this.outputs.shift() ?? null;
    if (first !== null) this.characters -= lengthOf(first);
    return first;
  }
}

function lengthOf({ text, logprobs = [], opaque }: Output): number {
  const length = text.length + (opaque?.data.length ?? 0);
  return logprobs.reduce((sum, { top }) => sum + LOGPROB_LENGTH * (1 + top.length), length);
}
/** A token with its probability in the log, about. */
const LOGPROB_LENGTH = 32;

function ownOf({ token_ids, logprobs, ...output }: Output): Waiting {
  return {
    ...output,
    token_ids: [...token_ids],
    ...(logprobs === undefined ? {} : { logprobs: [...logprobs] }),
  };
}

function join(first: Waiting, { text, token_ids, logprobs, ...rest }: Output): void {
  Object.assign(first, rest);
  first.text += text;
  for (const id of token_ids) first.token_ids.push(id);
  if (logprobs === undefined) return;
  first.logprobs ??= [];
  for (const token of logprobs) first.logprobs.push(token);
}

/** Where an output begins in the answer so far, for a log that omits its text. */
function placeOf(
  output: Output,
  { output: text, parts }: RunContext,
): Pick<RunOutput, 'offset' | 'part'> {
  if (output.kind === undefined) return { offset: text.length };
  const before: RunContext['parts'] =
    parts.length > 0 || text === '' ? parts : [{ type: 'text', text }];
  const part = partOf(before, output);
  const present = before[part];
  return { part, offset: present === undefined ? 0 : textOf(present).length };
}

let end: Promise<void> | null = null;

/**
 * Resolves when this turn of the event loop has read what was ready. All callers of one turn resume
 * together, so their events share a commit.
 */
function endOfTurn(): Promise<void> {
  end ??= new Promise((resolve) =>
    setImmediate(() => {
      end = null;
      resolve();
    }),
  );
  return end;
}

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
