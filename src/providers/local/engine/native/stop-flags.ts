/**
 * Flags that end a batch while it is computed. The thread that computes is blocked then, so another
 * thread raises them, and llama.cpp asks one of its functions whether a tensor has no elements.
 * Each flag is such a tensor: the function reads only the four dimensions.
 *
 * 1. Runs share flags by their numbers. With more runs at one time than there are flags, the batch
 *    of another run can end: that run fails.
 */
export class StopFlags {
  readonly memory: SharedArrayBuffer;
  /** The dimensions of the tensors. 0: the flag is raised. */
  readonly words: BigInt64Array;

  /** `memory`: of the flags of another thread. */
  constructor(memory?: SharedArrayBuffer) {
    this.memory = memory ?? new SharedArrayBuffer((COUNT + 1) * BYTES);
    this.words = new BigInt64Array(this.memory);
    if (memory === undefined) this.words.fill(1n);
  }

  lower(id: number): void {
    Atomics.store(this.words, wordOf(id), 1n);
  }

  raise(id: number): void {
    Atomics.store(this.words, wordOf(id), 0n);
  }

  /** Nothing is computed any more. */
  raiseAll(): void {
    this.words.fill(0n);
  }

  get allRaised(): boolean {
    return Atomics.load(this.words, COUNT * WORDS + DIMENSIONS) === 0n;
  }

  isRaised(id: number): boolean {
    return Atomics.load(this.words, wordOf(id)) === 0n;
  }

  /** Where its tensor begins, in bytes. */
  placeOf(id: number): number {
    return (id % COUNT) * BYTES;
  }
}

const COUNT = 4096;
/** Of one flag. The dimensions are behind the type and the address of the buffer. */
const BYTES = 64;
const WORDS = BYTES / 8;
const DIMENSIONS = 2;

function wordOf(id: number): number {
  return (id % COUNT) * WORDS + DIMENSIONS;
}
