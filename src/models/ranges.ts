import { addInterval, gapsIn, type Interval } from './intervals.ts';

/** A part of the file that one connection fetches. */
export interface Claim {
  readonly from: number;
  readonly to: number;
}

/**
 * Which connection fetches which bytes of a file.
 *
 * 1. The first connection reads from its start up to the first byte that is there or claimed.
 * 2. Other connections claim pieces from the end of the missing bytes. So the file grows from both
 *    ends.
 * 3. No byte is claimed twice at one time.
 */
export class Ranges {
  private readonly claims = new Set<Claim>();
  private readonly have: () => readonly Interval[];
  private readonly size: number;
  private readonly piece: number;
  /** The next byte of the first connection. Null: it has ended. */
  private position: number | null;

  constructor(options: {
    have: () => readonly Interval[];
    /** Infinity: unknown. */
    size: number;
    /** Bytes of one claim. */
    piece: number;
    /** Where the first connection begins. */
    position: number;
  }) {
    this.have = options.have;
    this.size = options.size;
    this.piece = options.piece;
    this.position = options.position;
  }

  /** How far the first connection may read. */
  get end(): number {
    const at = this.position ?? this.size;
    let end = this.size;
    const reach = (from: number, to: number) => {
      if (to > at) end = Math.min(end, Math.max(from, at));
    };
    for (const [from, to] of this.have()) reach(from, to);
    for (const { from, to } of this.claims) reach(from, to);
    return end;
  }

  /** The first connection has the bytes before `position`. Null: it has ended. */
  advance(position: number | null): void {
    this.position = position;
  }

  /** Claims the last missing piece. Null: the first connection gets all of them. */
  claim(): Claim | null {
    const [from, to] = this.free().at(-1) ?? [0, 0];
    if (from >= to) return null;
    const claim = { from: Math.max(from, to - this.piece), to };
    this.claims.add(claim);
    return claim;
  }

  release(claim: Claim): void {
    this.claims.delete(claim);
  }

  /** The gaps without claims. Those of the first connection keep a piece for it. */
  private free(): Interval[] {
    if (!Number.isFinite(this.size)) return [];
    const { position } = this;
    return gapsIn(this.listClaimed(), this.size).filter(([from, to]) => {
      const isFirst = position !== null && position >= from && position <= to;
      return !isFirst || to - position >= 2 * this.piece;
    });
  }

  private listClaimed(): Interval[] {
    let all: Interval[] = [...this.have()];
    for (const { from, to } of this.claims) all = addInterval(all, [from, to]);
    return all;
  }
}
