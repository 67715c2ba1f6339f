import { globSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { importsOf } from '../layers.ts';
import { filesOf } from '../tiers.ts';
import type { Copy } from './copy.ts';
import type { Fault } from './faults.ts';

/** Slow tests that are tried: so many of those nearest to the fault. */
export const SLOW = 3;
/** Tests of the built program that are tried: so many of those most like the fault. */
export const BUILT = 8;
/** The nearest tests are tried alone, before all others begin. */
const NEAREST = 10;
/** A file may take so many times what it took before, and at least so many seconds. */
const PATIENCE = { times: 4, seconds: 30 };
/** What a file takes that was not tried before. */
const UNKNOWN_S = 15;

/** They are about texts, or about this command. */
const OTHERS = /^test\/(fixtures|mutate|prose|layers|readme|install)\b/;

/** The tests of a copy: which a fault is likely to break, and how long each takes. */
export class Tests {
  /** They fail without a fault. */
  readonly broken = new Set<string>();
  private readonly seconds = new Map<string, number>();
  private readonly copy: Copy;
  private readonly importers = importersOf();
  private readonly all = globSync('test/**/*.test.ts').filter((file) => !OTHERS.test(file));
  /** The text of each test of the built program. */
  private readonly built = new Map(
    globSync('test/{cli,e2e}/**/*.test.ts')
      .filter((file) => filesOf('quick', [file]).length === 0)
      .map((file) => [file, readFileSync(file, 'utf8')]),
  );

  constructor(copy: Copy) {
    this.copy = copy;
  }

  /**
   * The tests for a file, those that most likely find a fault first. `quick` has the whole quick
   * tier, `slow` has slow ones that import the file, `built` has tests of the built program.
   */
  for(file: string): { quick: string[]; slow: string[]; built: string[] } {
    const reached = new Set([file]);
    for (const each of reached) for (const by of this.importers.get(each) ?? []) reached.add(by);
    const near = [...reached].filter((name) => this.all.includes(name));
    const named = `/${basename(file, '.ts')}.test.ts`;
    const ordered = [...new Set([...near, ...this.all])].toSorted(
      (a, b) => Number(b.endsWith(named)) - Number(a.endsWith(named)),
    );
    const quick = new Set(filesOf('quick', this.all));
    return {
      quick: ordered.filter((name) => quick.has(name)),
      slow: near.filter((name) => !quick.has(name)).slice(0, SLOW),
      built: this.likeliest(file),
    };
  }

  /** The tests of the built program that have the most words of the path, rare words first. */
  private likeliest(file: string): string[] {
    const score = new Map([...this.built.keys()].map((test) => [test, 0]));
    for (const word of new Set(file.replace(/^src\/|\.ts$/g, '').split(/[/-]/))) {
      const has = new RegExp(`\\b${word}\\b`);
      const tests = [...this.built].filter(([test, text]) => has.test(test) || has.test(text));
      for (const [test] of tests) score.set(test, (score.get(test) ?? 0) + 1 / tests.length);
    }
    const ordered = [...score].toSorted(([, a], [, b]) => b - a);
    return ordered.slice(0, BUILT).map(([test]) => test);
  }

  /**
   * The first of these files that fails with the fault, passes without it, and fails again with it.
   * `build` runs before tests of the built program.
   */
  async firstFailure(
    fault: Fault,
    files: readonly string[],
    within: AbortSignal,
    build: () => Promise<unknown> = async () => {},
  ): Promise<string | null> {
    const run = async (some: readonly string[]) => {
      await build();
      const bound_s = this.bound(some);
      const { seconds, failed } = await this.copy.runTests(some, { bound_s, within });
      for (const [file, took_s] of seconds) if (file !== failed) this.seconds.set(file, took_s);
      return within.aborted ? null : failed;
    };
    const withFault = (some: readonly string[]) => this.copy.with(fault, () => run(some));

    for (const some of [files.slice(0, NEAREST), files.slice(NEAREST)])
      for (let left = some.filter((file) => !this.broken.has(file)); left.length > 0; ) {
        const failed = await withFault(left);
        if (failed === null) break;
        if ((await run([failed])) !== null) this.broken.add(failed);
        else if ((await withFault([failed])) !== null) return failed;
        left = left.filter((file) => file !== failed);
      }
    return null;
  }

  private bound(files: readonly string[]): number {
    const usual = files.map((file) => this.seconds.get(file) ?? UNKNOWN_S);
    return Math.ceil(Math.max(PATIENCE.seconds, PATIENCE.times * Math.max(0, ...usual)));
  }
}

/** Which files import a file. */
function importersOf(): Map<string, string[]> {
  const importers = new Map<string, string[]>();
  for (const file of globSync('{src,machines,test}/**/*.ts'))
    for (const { from, to, kind } of importsOf(file))
      if (kind !== 'type') importers.set(to, [...(importers.get(to) ?? []), from]);
  return importers;
}
