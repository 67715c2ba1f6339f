import { globSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { importersByFile } from '../layers.ts';
import { filesOf } from '../tiers.ts';
import type { Copy } from './copy.ts';
import type { Fault } from './faults.ts';

/** Slow tests that are tried: so many of those most like the fault. */
export const SLOW = 10;
/** Tests of the built program that are tried: so many of those most like the fault. */
export const BUILT = 8;
/** So many of the nearest tests are tried before all others. */
const NEAREST = 10;
/** A file may take so many times what it took before, and at least so many seconds. */
const PATIENCE = { times: 4, seconds: 30 };
/** What a file takes that was not tried before. */
const UNKNOWN_S = 60;
/** All quick tests take less, also on a busy machine. */
const RECORD_MS = 3_600_000;

/** They are about texts, or about this command. */
const OTHERS = /^test\/(fixtures|mutate|prose|layers|packages|readme|install)\b/;

/** The tests of a copy: which a fault is likely to break, and how long each takes. */
export class Tests {
  /** They fail without a fault. */
  readonly broken = new Set<string>();
  private readonly seconds = new Map<string, number>();
  /** The faults that each test file runs, by number. */
  private ran: ReadonlyMap<string, ReadonlySet<number>> = new Map();
  private readonly recorder: Copy;
  /** Ends with the last record that is asked for. */
  private recorded: Promise<unknown> = Promise.resolve();
  private readonly importers = importersByFile();
  private readonly all = globSync('test/**/*.test.ts').filter((file) => !OTHERS.test(file));
  /** The text of each slow test. */
  private readonly texts = new Map(
    notQuick(this.all).map((file) => [file, readFileSync(file, 'utf8')]),
  );
  /** The slow tests that have a word. */
  private readonly byWord = new Map<string, ReadonlySet<string>>();

  /** `recorder`: in it, the files record which faults they run. */
  constructor(recorder: Copy) {
    this.recorder = recorder;
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
    const ordered = near.toSorted((a, b) => Number(b.endsWith(named)) - Number(a.endsWith(named)));
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
   * The first of these files that passes without the fault, and fails twice with it. A file that
   * does not run the fault is left out.
   */
  async firstFailure(
    copy: Copy,
    id: number,
    fault: Fault,
    files: readonly string[],
    within: AbortSignal,
  ): Promise<string | null> {
    await this.record(files, within);
    const run = async (some: readonly string[]) => {
      const { failed } = await copy.with(id, () => this.run(copy, some, true, within));
      return within.aborted ? null : (failed[0] ?? null);
    };
    const mayFind = (file: string) =>
      !this.broken.has(file) && (!fault.isCalled || (this.ran.get(file)?.has(id) ?? false));
    for (let left = files.filter(mayFind); left.length > 0 && !within.aborted; ) {
      const failed = await run(left);
      if (failed === null || (await run([failed])) !== null) return failed;
      left = left.filter((file) => file !== failed);
    }
    return null;
  }

  /** Runs all quick tests, and records which faults each of them runs. */
  async recordQuick(): Promise<void> {
    await this.record(filesOf('quick', this.all), AbortSignal.timeout(RECORD_MS));
  }

  /** Runs the files that were not run before, and records which faults they run. */
  private async record(files: readonly string[], within: AbortSignal): Promise<void> {
    const { recorder } = this;
    const run = (some: readonly string[]) =>
      recorder.with('record', () => this.run(recorder, some, false, within));
    const before = this.recorded;
    const recording = (async () => {
      await before;
      const left = files.filter((file) => !this.seconds.has(file) && !this.broken.has(file));
      if (left.length === 0) return;
      const { failed } = await run(left);
      // A busy machine may have failed a test.
      for (const file of (await run(failed)).failed) this.broken.add(file);
      this.ran = recorder.readRan();
    })();
    this.recorded = recording;
    await recording;
  }

  private async run(copy: Copy, files: readonly string[], bail: boolean, within: AbortSignal) {
    const bound_s = this.bound(files);
    const report = await copy.runTests(files, { bound_s, bail, within });
    for (const [file, took_s] of report.seconds)
      if (!report.failed.includes(file)) this.seconds.set(file, took_s);
    return report;
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
