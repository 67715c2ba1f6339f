/** What happened in one simulation, or in many. */
export class Stats {
  readonly counts = new Map<string, number>();

  count(what: string, times = 1): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + times);
  }

  add(other: Stats): void {
    for (const [what, times] of other.counts) this.count(what, times);
  }
}
