import { globSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { importsOf } from '../layers.ts';
import { filesOf } from '../tiers.ts';
import type { Copy } from './copy.ts';
import type { Fault } from './faults.ts';

/** Slow tests that are tried: so many of those that import the file and are most like the fault. */
export const SLOW = 10;
/** Tests of the built program that are tried: so many of those most like the fault. */
export const BUILT = 8;
/** So many of the nearest tests are tried before all others. */
const NEAREST = 10;
/** A file may take so many times what it took before, and at least so many seconds. */
const PATIENCE = { times: 4, seconds: 30 };
/** What a file takes that was not tried before. */
const UNKNOWN_S = 60;

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
  /** The text of each slow test. */
  private readonly texts = new Map(
    notQuick(this.all).map((file) => [file, readFileSync(file, 'utf8')]),
  );
  /** The slow tests that have a word. */
  private readonly byWord = new Map<string, ReadonlySet<string>>();

  constructor(copy: Copy) {
    this.copy = copy;
  }

  /**
   * The tests for a file, those that most likely find a fault first. `nearest` and `quick` are the
   * quick tier, `slow` has slow ones that import the file, `built` has tests of the built program.
   */
  for(file: string): Record<'nearest' | 'quick' | 'slow' | 'built', string[]> {
    const reached = new Set([file]);
    for (const each of reached) for (const by of this.importers.get(each) ?? []) reached.add(by);
    const near = [...reached].filter((name) => this.all.includes(name));
    const named = `/${basename(file, '.ts')}.test.ts`;
    const ordered = [...new Set([...near, ...this.all])].toSorted(
      (a, b) => Number(b.endsWith(named)) - Number(a.endsWith(named)),
    );
    const [built, slow] = [true, false].map((isBuilt) =>
      [...this.texts.keys()]
        .filter((name) => isBuilt === /^test\/(cli|e2e)\//.test(name))
        .map((name) => ({ name, score: this.likeness(file, name) + Number(reached.has(name)) }))
        .toSorted((one, other) => other.score - one.score)
        .map(({ name }) => name),
    );
    const quick = ordered.filter((name) => !this.texts.has(name));
    return {
      nearest: quick.slice(0, NEAREST),
      quick: quick.slice(NEAREST),
      slow: slow?.slice(0, SLOW) ?? [],
      built: built?.slice(0, BUILT) ?? [],
    };
  }

  /** Grows with each folder that a test shares with a file, and each word. Rare ones count more. */
  private likeness(file: string, test: string): number {
    const path = file.replace(/^src\/|\.ts$/g, '').split('/');
    const own = test.split('/').slice(1);
    const folders = path.findIndex((part, index) => part !== own[index]);
    const words = path.flatMap((part) => part.split('-'));
    const isNamed = (word: string) => new RegExp(`\\b${word}\\b`).test(test);
    /** A command that the test gives, such as `'runs', 'remove'`. */
    const command = path.slice(-2).map((part) => `'${part}'`);
    const isGiven = this.texts.get(test)?.includes(command.join(', '));
    return words.reduce(
      (sum, word) => sum + Number(isNamed(word)) + this.rarity(word, test),
      Math.max(0, folders) + (isGiven ? 2 : 0),
    );
  }

  /** 1 for a word that only this test has, less for others, and 0 if the test has it not. */
  private rarity(word: string, test: string): number {
    const has = new RegExp(`\\b${word}\\b`);
    const names =
      this.byWord.get(word) ??
      new Set([...this.texts].filter(([, text]) => has.test(text)).map(([name]) => name));
    this.byWord.set(word, names);
    return names.has(test) ? 1 / names.size : 0;
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

    for (let left = files.filter((file) => !this.broken.has(file)); left.length > 0; ) {
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

function notQuick(files: readonly string[]): string[] {
  const quick = new Set(filesOf('quick', files));
  return files.filter((file) => !quick.has(file));
}

/** Which files import a file. */
function importersOf(): Map<string, string[]> {
  const importers = new Map<string, string[]>();
  for (const file of globSync('{src,machines,test}/**/*.ts'))
    for (const { from, to, kind } of importsOf(file))
      if (kind !== 'type') importers.set(to, [...(importers.get(to) ?? []), from]);
  return importers;
}
