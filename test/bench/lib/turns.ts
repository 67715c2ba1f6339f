import type { Report } from './report.ts';

export interface Turns {
  what: string;
  unit: string;
  rounds: number;
  /** The way that the others are compared with; without it there are no ratios. */
  floor?: string;
  /** Each returns the figure of one round. */
  ways: Readonly<Record<string, () => number | Promise<number>>>;
}

/**
 * Measures ways in turns: A B C, then C B A. A first turn of each is not counted. The same load of
 * the machine meets all of them.
 */
export async function takeTurns(report: Report, turns: Turns): Promise<void> {
  const { what, unit, rounds, ways } = turns;
  const names = Object.keys(ways);
  const values = new Map(names.map((name) => [name, [] as number[]]));
  for (const name of names) await ways[name]?.();
  for (let round = 0; round < rounds; round += 1)
    for (const name of round % 2 === 0 ? names : names.toReversed())
      values.get(name)?.push((await ways[name]?.()) ?? Number.NaN);
  for (const [way, list] of values)
    report.add({ what, unit, way, values: list, ...(turns.floor ? { floor: turns.floor } : {}) });
}

/** Milliseconds that some work takes. */
export async function timed(work: () => unknown): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}
