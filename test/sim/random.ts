/** A small generator of pseudo-random numbers (sfc32): one seed, one sequence, on every machine. */
export class Random {
  private a = 0;
  private b = 0x9e3779b9;
  private c: number;
  private d = 1;

  constructor(seed: number) {
    this.c = seed >>> 0;
    this.a = Math.floor(seed / 2 ** 32) >>> 0;
    for (let round = 0; round < 12; round += 1) this.next();
  }

  /** A whole number from 0 to 2^32 - 1. */
  next(): number {
    const sum = (this.a + this.b + this.d) | 0;
    this.d = (this.d + 1) | 0;
    this.a = this.b ^ (this.b >>> 9);
    this.b = (this.c + (this.c << 3)) | 0;
    this.c = ((this.c << 21) | (this.c >>> 11)) + sum;
    return sum >>> 0;
  }

  /** A whole number below `bound`. */
  below(bound: number): number {
    return this.next() % bound;
  }

  between(least: number, most: number): number {
    return least + this.below(most - least + 1);
  }

  /** True once in this many times. */
  onceIn(times: number): boolean {
    return this.below(times) === 0;
  }

  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)] as T;
  }
}

/** Adds a number to a running hash. */
export function mix(hash: number, value: number): number {
  return Math.imul((hash ^ value) + 0x9e3779b9, 0x85ebca6b) ^ (hash >>> 15);
}

/** The hash of a text. */
export function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1)
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return hash >>> 0;
}
