import { availableParallelism } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { SvcError } from '../errors.ts';
import { newMember } from './decode/decoder.ts';
import type { PromptCache } from './decode/prompt-cache.ts';
import { type Parts, tokensIn, withBatches } from './decode/prompt-parts.ts';
import { scoreTokens } from './decode/scores.ts';
import { Sequences, type Slot } from './decode/sequences.ts';
import { endOfFailure, readAll } from './ends.ts';
import { generate } from './generate.ts';
import type { LoadedModel } from './load.ts';
import { readUse } from './measured/idle.ts';
import { LOOK_MS, ThreadsNow } from './measured/threads-now.ts';
import { OutputBatcher } from './output-batcher.ts';
import { fitPrompt, promptOfOrder } from './prompt.ts';
import type { FromEngine } from './protocol/from-engine.ts';
import type { ReadOrder, RunOrder } from './protocol/messages.ts';
import { checkLength, readingOf, tokensOf } from './read.ts';

/** Tokens of a part that is measured apart from single tokens. */
const LARGE_PART = 64;

/**
 * The active runs in the one context, and the runs that wait for a sequence.
 *
 * 1. A run owns one sequence of the context from its start to its end.
 * 2. Each order gets outputs, then exactly one of finished, failed and stopped. After it nothing is
 *    computed.
 *
 * The daemon bounds its open orders, and so the waiting ones.
 */
export class Runs {
  private readonly loaded: LoadedModel;
  private readonly send: (message: FromEngine) => void;
  private readonly sequences: Sequences;
  private readonly active = new Map<number, AbortController>();
  private waiting: (RunOrder | ReadOrder)[] = [];
  /** What computes the active runs. */
  private threads: number;
  /** The threads of a token, and of small parts of prompts. */
  private readonly ofTokens: ThreadsNow;
  /** The threads of large parts of prompts, which are measured apart from those of a token. */
  private readonly ofParts: ThreadsNow;
  private saving: NodeJS.Timeout | undefined;

  constructor(
    loaded: LoadedModel,
    send: (message: FromEngine) => void,
    cache: PromptCache | null = null,
  ) {
    this.loaded = loaded;
    this.send = send;
    this.threads = loaded.threads.alone;
    this.ofTokens = new ThreadsNow(this.threads, availableParallelism());
    this.ofParts = new ThreadsNow(loaded.threads.wide, availableParallelism());
    if (loaded.threads.mayChange) setInterval(() => this.look(), LOOK_MS).unref();
    loaded.decoder.wide = (tokens) => this.wideOf(tokens);
    loaded.decoder.onParts = (ms, tokens, threads) => {
      if (tokens >= LARGE_PART) this.ofParts.note(threads, ms / tokens);
    };
    loaded.decoder.onToken = (ms, width) =>
      this.ofTokens.note(this.threads, ms / (1 + (width - 1) * loaded.tokenCost));
    this.sequences = new Sequences({ ...loaded, cache });
  }

  /** Keeps the computed tokens, as far as that takes no long time. */
  async close(): Promise<void> {
    clearTimeout(this.saving);
    const until = performance.now() + CLOSE_MS;
    await Promise.race([this.sequences.save(1, until), pause(CLOSE_MS)]);
  }

  start(order: RunOrder | ReadOrder): void {
    clearTimeout(this.saving);
    if (order.type === 'run' ? order.only_count : order.top === null) {
      this.send(this.read(order));
      return;
    }
    if (this.sequences.hasFree) void this.answer(order);
    else this.waiting.push(order);
  }

  stop(id: number): void {
    this.active.get(id)?.abort();
    const waiting = this.waiting.filter((order) => order.id !== id);
    if (waiting.length < this.waiting.length) this.send({ type: 'stopped', id });
    this.waiting = waiting;
  }

  /**
   * Tokens that are computed alone have the same threads in all runs at one time: another number
   * can change an exact one. It changes no part of a prompt, where each thread has its own rows.
   */
  private setThreads(order: RunOrder | ReadOrder): number {
    const { threads, decoder } = this.loaded;
    const recorded = order.type === 'run' ? order.resume?.threads : null;
    const { present } = this.ofTokens;
    decoder.threads = Math.min(recorded ?? present, threads.alone);
    return decoder.threads;
  }

  /** The threads of a batch with several tokens, by the use of the cores at the moment. */
  private wideOf(tokens: number): number {
    const { alone, wide } = this.loaded.threads;
    if (tokens >= LARGE_PART) return this.ofParts.present;
    return this.ofTokens.present < alone ? this.ofTokens.present : wide;
  }

  private look(): void {
    const use = readUse();
    this.ofTokens.look(use);
    this.ofParts.look(use);
  }

  /** Needs no sequence, so it never waits for a run. */
  private read(order: RunOrder | ReadOrder): FromEngine {
    const { id } = order;
    try {
      if (order.type === 'run') return readAll(id, promptOfOrder(this.loaded, order).tokens.length);
      const tokens = tokensOf(this.loaded, order);
      this.send({ type: 'reading', id, ...readingOf(this.loaded.model, tokens, null) });
      return readAll(id, tokens.length);
    } catch (thrown) {
      return endOfFailure(id, thrown);
    }
  }

  private async answer(order: RunOrder | ReadOrder): Promise<void> {
    const abort = new AbortController();
    if (this.active.size === 0) this.threads = this.setThreads(order);
    this.active.set(order.id, abort);
    this.send(await this.outcomeOf(order, abort.signal));
    this.active.delete(order.id);
    const next = this.sequences.hasFree ? this.waiting.shift() : undefined;
    if (next !== undefined) this.start(next);
    else if (this.active.size === 0)
      this.saving = setTimeout(() => void this.sequences.save(IDLE_TOKENS), IDLE_MS).unref();
  }

  private outcomeOf(order: RunOrder | ReadOrder, signal: AbortSignal): Promise<FromEngine> {
    return order.type === 'run' ? this.outcome(order, signal) : this.score(order, signal);
  }

  /** Nothing of the sequence is kept: it has no client. */
  private async score(order: ReadOrder, signal: AbortSignal): Promise<FromEngine> {
    const { id, top } = order;
    const { loaded, sequences } = this;
    let slot: Slot | null = null;
    try {
      const tokens = tokensOf(loaded, order);
      checkLength(tokens, loaded);
      const taken = sequences.takeEmpty();
      slot = taken.slot;
      await sequences.prepare(taken, '');
      const scores = await scoreTokens(loaded, slot, tokens, { top: top ?? 0, signal });
      this.send({ type: 'reading', id, ...readingOf(loaded.model, tokens, scores) });
      return readAll(id, tokens.length);
    } catch (thrown) {
      return signal.aborted ? { type: 'stopped', id } : endOfFailure(id, thrown);
    } finally {
      if (slot !== null) sequences.leave(slot, { shared: false, failed: true });
    }
  }

  private async outcome(order: RunOrder, signal: AbortSignal): Promise<FromEngine> {
    const { id, client } = order;
    const { loaded, sequences } = this;
    const exact = order.exact || !loaded.batching;
    const batched = order.resume?.batched ?? false;
    const member = newMember({ exact, batched, signal, flag: id });
    let prompt_parts: number[] | undefined;
    const output = new OutputBatcher((piece) => {
      this.send({
        type: 'output',
        id,
        threads: this.threads,
        ...piece,
        ...(member.batched ? { batched: true } : {}),
        ...(prompt_parts === undefined ? {} : { prompt_parts }),
      });
      prompt_parts = undefined;
    });
    let slot: Slot | null = null;
    let hasFailed = false;
    try {
      const prompt = fitPrompt(loaded, order);
      const { tokens } = prompt;
      const resumed = resumedParts(order, tokens);
      const reuse = {
        client,
        repeatable: order.exact || loaded.repeatable,
        shares: !exact,
        ...(resumed === undefined ? {} : { parts: resumed }),
      };
      const taken = sequences.take(tokens, reuse);
      slot = taken.slot;
      const kept = await sequences.prepare(taken, client, `run_${order.call_key}`);
      member.batched ||= kept > slot.alone;
      const parts = resumed ?? withBatches(slot.parts, tokens.length - kept, loaded.batch);
      prompt_parts = [...parts];
      const isAlone = () => this.active.size === 1;
      const work = { loaded, slot, member, prompt, parts, kept, order, isAlone, signal, output };
      const finish = await generate(work);
      return finish === null ? { type: 'stopped', id } : { type: 'finished', id, ...finish };
    } catch (thrown) {
      hasFailed = true;
      return endOfFailure(id, thrown);
    } finally {
      output.flush();
      loaded.decoder.leave(member);
      if (slot !== null) sequences.leave(slot, { shared: member.batched, failed: hasFailed });
    }
  }
}

/**
 * How the prompt of an answer that continues exactly was computed. Absent: a new answer, or one
 * that shares its batches. Throws resume_failed.
 */
function resumedParts({ resume }: RunOrder, prompt: readonly unknown[]): Parts | undefined {
  if (resume === null || resume.batched) return undefined;
  const parts = resume.prompt_parts ?? [prompt.length];
  if (tokensIn(parts) !== prompt.length) throw new SvcError('resume_failed');
  return parts;
}

/**
 * An engine without work keeps the sequences that grew by so much since they were kept, in case of
 * a power cut. Each write has the whole sequence, so not each turn is written.
 */
const IDLE_MS = 30_000;
const IDLE_TOKENS = 256;
/** Of the time that a stop has. A write that is cut off leaves no file. */
const CLOSE_MS = 2000;
