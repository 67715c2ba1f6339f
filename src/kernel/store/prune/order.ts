/** A finished run, as `pruneOrder` sees it. */
export interface SizedRun {
  run_id: string;
  provider: string;
  bytes: number;
  ended_at: number;
  accepted_seq: number;
}

export interface PruneRules {
  /** A run of more bytes is large. */
  large_bytes: number;
  /** A run that ended later is young. */
  young_at: number;
  /** Bytes of the daemon events of earlier boots. Default: few. */
  said_bytes?: number;
  /** True if the log is so large that small young runs go too. Called before each run. */
  youngToo(): boolean;
}

/** In place of a run: the daemon events of earlier boots. */
export const SAID = 'said';

/**
 * The order in which a log that is too large loses its history. It begins with what frees most.
 *
 * 1. Large runs go first, from the provider with the most bytes in large runs: old ones before
 *    young ones, the largest first. The events of earlier daemons go before them if they are as
 *    large, and else after them.
 * 2. Then the others, the oldest first, from the provider with the most bytes. Young ones stay
 *    unless `youngToo`.
 * 3. So a provider loses a run only while no other provider uses more.
 */
export function* pruneOrder(
  runs: Iterable<SizedRun>,
  { large_bytes, young_at, said_bytes = 0, youngToo }: PruneRules,
): Generator<SizedRun | typeof SAID> {
  const isYoung = ({ ended_at }: SizedRun) => ended_at > young_at;
  const oldFirst = (a: SizedRun, b: SizedRun) => Number(isYoung(a)) - Number(isYoung(b));
  const isLarge = ({ bytes }: Pick<SizedRun, 'bytes'>) => bytes > large_bytes;
  const { large = [], small = [] } = Object.groupBy(runs, (run) =>
    isLarge(run) ? 'large' : 'small',
  );
  const largest = greediestFirst(large, (a, b) => oldFirst(a, b) || b.bytes - a.bytes);
  yield* isLarge({ bytes: said_bytes }) ? [SAID, ...largest] : [...largest, SAID];
  for (const run of greediestFirst(
    small,
    (a, b) => oldFirst(a, b) || a.accepted_seq - b.accepted_seq,
  )) {
    if (isYoung(run) && !youngToo()) return;
    yield run;
  }
}

/** Yields the next run of the provider that uses most, without the runs that have gone. */
function* greediestFirst(
  runs: SizedRun[],
  order: (a: SizedRun, b: SizedRun) => number,
): Generator<SizedRun> {
  const groups = [...Map.groupBy(runs, ({ provider }) => provider).values()].map((group) => ({
    queue: group.sort(order).reverse(),
    bytes: group.reduce((sum, { bytes }) => sum + bytes, 0),
  }));
  for (;;) {
    const most = groups.reduce<(typeof groups)[number] | null>(
      (best, group) => (best === null || group.bytes > best.bytes ? group : best),
      null,
    );
    const run = most?.queue.pop();
    if (most === null || run === undefined) return;
    most.bytes -= run.bytes;
    yield run;
  }
}

/**
 * The items to remove for size, in their order. A round of several steps measures them once: what
 * has gone since then is for the caller to see.
 */
export class Surplus {
  private readonly order: Iterator<SizedRun | typeof SAID, void>;
  private current: SizedRun | typeof SAID | null = null;
  private youngToo = () => false;

  constructor(runs: Iterable<SizedRun>, rules: Omit<PruneRules, 'youngToo'>) {
    this.order = pruneOrder(runs, { ...rules, youngToo: () => this.youngToo() });
  }

  /** The same one until it is taken. */
  next(youngToo: () => boolean): SizedRun | typeof SAID | null {
    this.youngToo = youngToo;
    this.current ??= this.order.next().value ?? null;
    return this.current;
  }

  taken(): void {
    this.current = null;
  }
}
