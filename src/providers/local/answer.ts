import type { Failure } from '../../../machines/events.ts';
import { ENGINE_CRASHED, ENGINE_KILLED } from '../../../machines/retry.ts';
import type { Embedding } from '../../contract/embed-input.ts';
import type { Usage } from '../../contract/events.ts';
import type { Reading } from '../../contract/reading.ts';
import type { FromEngine, Output } from '../../engine/index.ts';
import { fromBody, SvcError } from '../../errors.ts';
import type { OutputPart } from '../../ports/providers.ts';

/** A message about one order. */
export type ReplyMessage = Extract<FromEngine, { id: number }>;

/** The messages of the engine for one order. It ends once. */
export interface Reply {
  /** Resolves when the engine has no more work for it. */
  readonly ended: Promise<void>;
  /** The failure that the engine reported, once it has ended. */
  readonly failure: Failure | null;
  take(message: ReplyMessage): void;
  /** Ends it without a message of the engine. */
  lose(failure: SvcError): void;
}

type End = Exclude<ReplyMessage, { type: 'output' | 'vector' | 'reading' }>;

function isEnd(message: ReplyMessage): message is End {
  return ENDS.has(message.type);
}
const ENDS: ReadonlySet<string> = new Set<End['type']>(['finished', 'failed', 'stopped']);

/** The end of one order: a message of the engine, or the loss of its process. */
abstract class EndsOnce implements Reply {
  protected end: End | SvcError | null = null;
  private readonly settled = Promise.withResolvers<void>();

  get ended(): Promise<void> {
    return this.settled.promise;
  }

  get failure(): Failure | null {
    return this.end !== null && 'type' in this.end && this.end.type === 'failed'
      ? this.end.error
      : null;
  }

  abstract take(message: ReplyMessage): void;

  lose(failure: SvcError): void {
    this.finish(failure);
  }

  /** The usage of finished work. Throws SvcError. Null: the work was stopped. */
  protected async waitForUsage(): Promise<Usage | null> {
    await this.ended;
    if (this.end instanceof SvcError) throw this.end;
    if (this.end?.type === 'failed') throw engineError(this.end.error);
    return this.end?.type === 'finished' ? this.end.usage : null;
  }

  protected finish(end: NonNullable<EndsOnce['end']>): void {
    this.end ??= end;
    this.settled.resolve();
  }
}

/**
 * The engine's answer to one order, from the process to its reader.
 *
 * 1. It ends once: with a finish, with a failure, or because the work was stopped.
 * 2. Unread output is not longer than the context of the model.
 */
export class Answer extends EndsOnce {
  private unread: Output[] = [];
  private readonly threads: number | null;
  private wake: (() => void) | null = null;

  /** `threads`: the threads that compute the answer. Null: unknown. */
  constructor(threads: number | null) {
    super();
    this.threads = threads;
  }

  take(message: ReplyMessage): void {
    if (message.type === 'output') {
      const { type: _, id: __, ...output } = message;
      this.unread.push(output);
      this.wake?.();
    } else if (isEnd(message)) this.finish(message);
  }

  /**
   * Yields the parts as they arrive. Ends without a finish if the work was stopped. Throws
   * SvcError.
   */
  async *parts(): AsyncGenerator<OutputPart> {
    for (;;) {
      const [next] = this.unread;
      if (next !== undefined) yield this.drain(next);
      else if (this.end !== null) break;
      else await new Promise<void>((resolve) => (this.wake = resolve));
    }
    if (this.end instanceof SvcError) throw this.end;
    if (this.end.type === 'failed') throw engineError(this.end.error);
    if (this.end.type !== 'finished') return;
    const { id: _, ...completion } = this.end;
    yield { ...completion, type: 'finish' };
  }

  /** The unread output of one part. */
  private drain(first: Output): OutputPart {
    const other = this.unread.findIndex((output) => !isSamePart(first, output));
    const outputs = this.unread.splice(0, other < 0 ? this.unread.length : other);
    const logprobs = outputs.flatMap((output) => output.logprobs ?? []);
    return {
      ...first,
      type: 'output',
      text: outputs.map(({ text }) => text).join(''),
      token_ids: outputs.flatMap(({ token_ids }) => token_ids),
      ...(logprobs.length === 0 ? {} : { logprobs }),
      ...(outputs.some(({ batched }) => batched === true) ? { batched: true } : {}),
      ...threadsOf(first.threads ?? this.threads),
    };
  }

  protected override finish(end: NonNullable<Answer['end']>): void {
    this.wake?.();
    super.finish(end);
  }
}

function threadsOf(threads: number | null): { threads?: number } {
  return threads === null ? {} : { threads };
}

function isSamePart(a: Output, b: Output): boolean {
  return a.kind === b.kind && a.call?.id === b.call?.id;
}

/**
 * The engine's vectors for one order. It ends once: with all vectors, with a failure, or because
 * the work was stopped.
 */
export class Vectors extends EndsOnce {
  private readonly vectors: number[][] = [];

  take(message: ReplyMessage): void {
    if (message.type === 'vector') this.vectors.push(message.vector);
    else if (isEnd(message)) this.finish(message);
  }

  /** Throws SvcError. Null: the work was stopped. */
  async readWhole(): Promise<Embedding | null> {
    const usage = await this.waitForUsage();
    return usage && { vectors: this.vectors, input_tokens: usage.input_tokens };
  }
}

/** The result of a reading. It ends once, as vectors do. */
export class ReadReply extends EndsOnce {
  private reading: Reading | null = null;

  take(message: ReplyMessage): void {
    if (message.type === 'reading') {
      const { type: _, id: __, ...reading } = message;
      this.reading = reading;
    } else if (isEnd(message)) this.finish(message);
  }

  /** Throws SvcError. Null: the work was stopped. */
  async readWhole(): Promise<Reading | null> {
    return (await this.waitForUsage()) && this.reading;
  }
}

/**
 * An error that the engine process reported, or of its load. Work that died with the process is
 * lost. A load computes no run.
 */
export function engineError({ retryable, ...failure }: Failure): SvcError {
  const hasDied = failure.code === ENGINE_KILLED || failure.code === ENGINE_CRASHED;
  return fromBody(failure, { retryable, ...(hasDied ? { lost: true, computing: 0 } : {}) });
}
