import { BatchStopped, type Context } from '../native/context.ts';
import type { Token } from '../native/model.ts';
import type { StopAt } from '../native/stop-flags.ts';

/** One run, for as long as it owns its sequence. */
export interface Member {
  /** The run is never computed with other runs. */
  readonly exact: boolean;
  /** One of its tokens was computed with other runs, or follows tokens that were. */
  batched: boolean;
  /** Tokens of its prompt that are not computed, while a part of it waits. */
  left: number;
  /** When it first asked: a smaller number is earlier. */
  ticket: number;
  /** How many parts of later prompts went before its own. */
  passed: number;
  /** Aborts when the run is cancelled. */
  readonly signal?: AbortSignal;
  /** The flag that ends a batch of this run alone: see StopFlags. */
  readonly flag?: number;
}

export function newMember(run: Pick<Member, 'exact' | 'batched' | 'signal' | 'flag'>): Member {
  return { ...run, left: 0, ticket: 0, passed: 0 };
}

/** A sequence of the context. */
export interface Sequence {
  /** Its number in the context. */
  readonly place: number;
  /** Its computed tokens. */
  readonly tokens: Token[];
}

/**
 * Samples the token after the one with this index in the batch. Those after its guesses follow at
 * the next indexes.
 */
export type Sample<T> = (context: Context, index: number) => T;

interface Work {
  readonly member: Member;
  readonly sequence: Sequence;
  readonly tokens: readonly Token[];
  /** How many of the last ones are guesses. */
  readonly guesses: number;
  readonly sample: Sample<unknown> | null;
  done(sampled: unknown): void;
  fail(thrown: unknown): void;
}

/**
 * Computes the tokens of all runs in the one context, batch after batch: in order of the requests,
 * but for rules 3, 8 and 9. A run asks for a token when it has the last one. So no more wait than
 * there are sequences.
 *
 * 1. One batch is computed at a time. All its tokens are sampled before the next one begins.
 * 2. A request of an exact run is a batch by itself, so it is rounded as in a run alone.
 * 3. Of all other runs, the next tokens are one batch, and so are short parts of prompts: as many
 *    as fit into `size` tokens. Tokens and parts are not mixed: llama.cpp computes a batch in
 *    passes of one length, so the tokens would only come later.
 * 4. A batch of tokens waits for a run that is between two of its tokens, but never for long: a run
 *    that waits for something else does not stop the others.
 * 5. The tokens of a batch are in the order of their sequences. llama.cpp splits a batch in another
 *    order, and at a number that is missing.
 * 6. A run is `batched` from its first token that shares a batch. Before that it is exact.
 * 7. Other changes of the context happen between two batches.
 * 8. Of the prompts that wait, the one with the fewest tokens left goes first: prompts in turns
 *    would all be late. A prompt that `PASSED_MAX` parts of later prompts have passed gets every
 *    second part.
 * 9. While a token waits, at most `PROMPT_TOKENS` of prompts and one part more go before it.
 * 10. Tokens with guesses behind them are a batch by themselves. Its width changes the rounding, so
 *     their run is `batched`.
 * 11. No batch begins with a run whose signal has aborted. A batch of parts ends early when a run
 *     is cancelled. Then the parts of the other runs are computed again.
 */
export class Decoder {
  /** Of a batch of one token. */
  threads: number;
  /** Of a batch of so many: of parts of prompts, or of tokens of several runs. */
  wide: (tokens: number) => number;
  /** Gets the time of a batch of so many tokens, one of each run. */
  onToken: (ms: number, width: number) => void = () => {};
  /** Gets the time of a batch of so many tokens with parts of prompts, and its threads. */
  onParts: (ms: number, tokens: number, threads: number) => void = () => {};
  private readonly native: Context;
  private readonly size: number;
  private queue: Work[] = [];
  private between: (() => Promise<void>)[] = [];
  /** Runs of the last shared batch that have not requested their next token yet. */
  private expected = new Set<Member>();
  private isBusy = false;
  /** Tokens of prompts computed while a token waited, since the last batch of tokens. */
  private prompted = 0;
  private ticket = 0;
  /** The last part was of a prompt that later prompts had passed. */
  private wasLate = false;

  /** `size`: the most tokens of several parts in one batch. */
  constructor(native: Context, threads: number, size: number, wide = threads) {
    this.native = native;
    this.size = size;
    [this.threads, this.wide] = [threads, () => wide];
  }

  /**
   * Computes tokens behind those of the sequence, with guesses of the next ones. Resolves with what
   * `sample` makes of the last one and of the guesses: it forgets those that are wrong. Rejects if
   * llama.cpp fails: then it is unknown what else the sequence has. Rejects with the reason of the
   * signal if the run was cancelled before.
   */
  compute<T>(
    member: Member,
    sequence: Sequence,
    tokens: readonly Token[],
    sample: Sample<T>,
    guesses?: readonly Token[],
  ): Promise<T>;
  compute(
    member: Member,
    sequence: Sequence,
    tokens: readonly Token[],
    sample: null,
  ): Promise<null>;
  compute(
    member: Member,
    sequence: Sequence,
    computed: readonly Token[],
    sample: Sample<unknown> | null,
    guessed: readonly Token[] = [],
  ): Promise<unknown> {
    return new Promise((done, fail) => {
      const tokens = guessed.length === 0 ? computed : [...computed, ...guessed];
      const guesses = guessed.length;
      this.queue.push({ member, sequence, tokens, guesses, sample, done, fail });
      this.expected.delete(member);
      member.ticket ||= this.ticket += 1;
      if (!this.isBusy) void this.work();
    });
  }

  /**
   * Keeps the first tokens of a sequence. Resolves with how many it has then: those, or 0. `state`:
   * of a memory that cannot go back, after them.
   */
  keep(sequence: Sequence, kept: number, state?: Uint8Array): Promise<number> {
    return this.change((native) => {
      const { place, tokens } = sequence;
      // A model with a window forgets its first tokens: it can continue, but not go back.
      const isWhole =
        tokens.length === kept ||
        (state === undefined
          ? native.firstPositionOf(place) === 0
          : native.restoreState(place, state));
      // A batch that failed may have left more than the tokens.
      const keeps = kept > 0 && isWhole && native.forget(place, kept);
      if (!keeps) native.forget(place);
      tokens.length = keeps ? kept : 0;
      return tokens.length;
    });
  }

  /** The run asks for no more tokens. */
  leave(member: Member): void {
    this.expected.delete(member);
  }

  /** Changes or reads the context while nothing is computed. */
  change<T>(change: (native: Context) => T | Promise<T>): Promise<T> {
    return new Promise((done, fail) => {
      this.between.push(async () => {
        try {
          done(await change(this.native));
        } catch (thrown) {
          fail(thrown);
        }
      });
      if (!this.isBusy) void this.work();
    });
  }

  private async work(): Promise<void> {
    this.isBusy = true;
    for (;;) {
      for (const change of this.between.splice(0)) await change();
      this.dropCancelled();
      if (this.queue.length > 0) {
        await this.decode(await this.next());
        await messages();
      } else if (this.between.length === 0) break;
    }
    this.isBusy = false;
  }

  private dropCancelled(): void {
    if (!this.queue.some(isCancelled)) return;
    for (const work of this.queue.filter(isCancelled)) work.fail(work.member.signal?.reason);
    this.queue = this.queue.filter((work) => !isCancelled(work));
  }

  /** The next batch, which leaves the queue. */
  private async next(): Promise<readonly Work[]> {
    if (this.prompted >= PROMPT_TOKENS)
      this.queue = [...this.queue.filter(isToken), ...this.queue.filter(isPart)];
    const [first] = this.queue as [Work];
    if (isPart(first)) return this.take(this.nextParts());
    this.prompted = 0;
    if (isAlone(first)) return this.take([first]);
    // A run that continues asks within a few steps of the queue of promises.
    for (let round = 0; this.expected.size > 0 && round < ROUNDS_MAX; round += 1) await null;
    const batch = this.queue.filter((work) => isToken(work) && !isAlone(work));
    this.expected = new Set(batch.map(({ member }) => member));
    return this.take(batch);
  }

  private take(batch: readonly Work[]): readonly Work[] {
    this.queue = this.queue.filter((work) => !batch.includes(work));
    for (const { member, guesses } of batch) member.batched ||= batch.length > 1 || guesses > 0;
    return batch.toSorted((one, other) => one.sequence.place - other.sequence.place);
  }

  /** The part whose turn it is, with the shortest other ones that fit. */
  private nextParts(): Work[] {
    const part = this.nextPart();
    const batch = [part];
    let room = part.member.exact ? 0 : this.size - part.tokens.length;
    const others = this.queue.filter(
      (work) => isPart(work) && !work.member.exact && work !== part && work.tokens.length <= room,
    );
    for (const work of others.toSorted((one, other) => left(one) - left(other))) {
      if (work.tokens.length > room) break;
      batch.push(work);
      room -= work.tokens.length;
    }
    if (this.queue.some(isToken)) this.prompted += sizeOf(batch);
    return batch;
  }

  private nextPart(): Work {
    const parts = this.queue.filter(isPart);
    const shortest = parts.reduce((one, next) => (left(next) < left(one) ? next : one));
    const late = parts.reduce((one, next) => (passedOf(next) > passedOf(one) ? next : one));
    this.wasLate = !this.wasLate && passedOf(late) >= PASSED_MAX;
    const part = this.wasLate ? late : shortest;
    for (const { member } of parts) if (member.ticket < part.member.ticket) member.passed += 1;
    return part;
  }

  private async decode(batch: readonly Work[]): Promise<void> {
    const { native } = this;
    try {
      const size = sizeOf(batch);
      const threads = size > 1 ? this.wide(size) : this.threads;
      native.setThreads(threads);
      native.initBatch(stopOf(batch));
      const indexes = batch.map(({ sequence, tokens, guesses, sample }) => {
        const first = tokens.length - 1 - guesses;
        const wanted = sample === null ? [] : tokens.slice(first).map((_, at) => first + at);
        return native.addToBatch(sequence.place, sequence.tokens.length, tokens, wanted)[0] ?? 0;
      });
      const began = performance.now();
      // A context of a test ends it later.
      await native.decodeBatch();
      const ms = performance.now() - began;
      if (batch.some(isPart)) this.onParts(ms, size, threads);
      else this.onToken(ms, size);
      for (const { sequence, tokens } of batch) sequence.tokens.push(...tokens);
      for (const [at, work] of batch.entries()) sampleWork(work, native, indexes[at] ?? 0);
    } catch (thrown) {
      // This thread hears of the cancel next.
      if (thrown instanceof BatchStopped) await messages();
      if (thrown instanceof BatchStopped && batch.length > 1 && this.forget(batch))
        this.queue.unshift(...batch);
      else
        for (const work of batch)
          work.fail(isCancelled(work) ? work.member.signal?.reason : thrown);
    }
  }

  /** Forgets what an ended batch has computed. False: a memory cannot. */
  private forget(batch: readonly Work[]): boolean {
    return batch
      .map(({ sequence: { place, tokens } }) => this.native.forget(place, tokens.length))
      .every(Boolean);
  }
}

/** What ends the batch early. A batch of one token of several runs is short. */
function stopOf(batch: readonly Work[]): StopAt | null {
  const [first, ...others] = batch;
  if (others.length === 0) return first?.member.flag ?? null;
  return batch.some(isPart) ? 'any' : null;
}

function sizeOf(batch: readonly Work[]): number {
  return batch.reduce((sum, { tokens }) => sum + tokens.length, 0);
}

/** Messages are received, and timers end, between two batches. */
export function messages(): Promise<void> {
  return new Promise((next) => setImmediate(next));
}

function sampleWork({ sample, done, fail }: Work, native: Context, index: number): void {
  try {
    done(sample === null ? null : sample(native, index));
  } catch (thrown) {
    fail(thrown);
  }
}

function isCancelled({ member }: Work): boolean {
  return member.signal?.aborted === true;
}

function isPart({ tokens, guesses }: Work): boolean {
  return tokens.length - guesses > 1;
}

/** Whether a token is a batch by itself. */
function isAlone({ member, guesses }: Work): boolean {
  return member.exact || guesses > 0;
}

function isToken(work: Work): boolean {
  return !isPart(work);
}

function left({ member }: Work): number {
  return member.left;
}

function passedOf({ member }: Work): number {
  return member.passed;
}

/** A round is one step of the queue of promises. A run that has its token needs about ten. */
const ROUNDS_MAX = 64;
const PASSED_MAX = 16;
/** As many as one batch of a prompt on a processor. */
const PROMPT_TOKENS = 128;
