/**
 * Flags that end a batch while it is computed. The thread that computes is blocked then, so another
 * thread raises them, and llama.cpp asks one of its functions whether a tensor has no elements.
 * Each flag is such a tensor: the function reads only the four dimensions.
 *
 * 1. Runs share flags by their numbers. With more runs at one time than there are flags, the batch
 *    of another run can end: that run fails.
 * 2. One more flag is raised with each other one, for a batch of several runs, and is lowered
 *    before it. A cancel of that moment waits for its end.
 */
export class StopFlags {
  readonly memory: SharedArrayBuffer;
  /** The dimensions of the tensors. 0: the flag is raised. */
  readonly words: BigInt64Array;

  /** `memory`: of the flags of another thread. */
  constructor(memory?: SharedArrayBuffer) {
    this.memory = memory ?? new SharedArrayBuffer((ALL + 1) * BYTES);
    this.words = new BigInt64Array(this.memory);
    if (memory === undefined) this.words.fill(1n);
  }

  lower(id: StopAt): void {
    Atomics.store(this.words, wordOf(id), 1n);
  }

  raise(id: number): void {
    Atomics.store(this.words, wordOf(id), 0n);
    Atomics.store(this.words, wordOf('any'), 0n);
  }

  /** Nothing is computed any more. */
  raiseAll(): void {
    this.words.fill(0n);
  }

  get areAllRaised(): boolean {
    return Atomics.load(this.words, ALL * WORDS + DIMENSIONS) === 0n;
  }

  isRaised(id: StopAt): boolean {
    return Atomics.load(this.words, wordOf(id)) === 0n;
  }

  /** Where its tensor begins, in bytes. */
  placeOf(id: StopAt): number {
    return tensorOf(id) * BYTES;
  }
}

/** The flag of a run, by its number, or the flag that is raised with any of them. */
export type StopAt = number | 'any';

const COUNT = 4096;
/** Behind the flags of runs. */
const ANY = COUNT;
const ALL = COUNT + 1;
/** Of one flag. The dimensions are behind the type and the address of the buffer. */
const BYTES = 64;
const WORDS = BYTES / 8;
const DIMENSIONS = 2;

function tensorOf(id: StopAt): number {
  return id === 'any' ? ANY : id % COUNT;
}

function wordOf(id: StopAt): number {
  return tensorOf(id) * WORDS + DIMENSIONS;
}
