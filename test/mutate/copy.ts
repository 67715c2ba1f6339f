import { execFileSync, spawn } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import type { Fault } from './faults.ts';

/** What the test files of one call did. */
export interface Report {
  /** Seconds of each file that ended. */
  seconds: Map<string, number>;
  /** The first file that failed. */
  failed: string | null;
}

/** A copy of sources, tests and the built program, in which faults are planted and tests run. */
export class Copy {
  readonly folder = mkdtempSync(join(tmpdir(), 'svc-mutate-'));
  private readonly stop: AbortSignal;

  constructor(stop: AbortSignal) {
    this.stop = stop;
    try {
      this.fill();
    } catch (error) {
      this.remove();
      throw error;
    }
  }

  private fill(): void {
    const list = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
    const files = execFileSync('git', list, { encoding: 'utf8', maxBuffer: 2 ** 26 }).split('\0');
    for (const file of files) {
      if (!statSync(file, { throwIfNoEntry: false })?.isFile()) continue;
      mkdirSync(dirname(join(this.folder, file)), { recursive: true });
      copyFileSync(file, join(this.folder, file));
    }
    if (existsSync('dist')) cpSync('dist', join(this.folder, 'dist'), { recursive: true });
    // The cache of compiled code is of the copy alone, and goes with it.
    mkdirSync(join(this.folder, 'node_modules'));
    for (const name of readdirSync('node_modules').filter((entry) => entry !== '.cache'))
      symlinkSync(resolve('node_modules', name), join(this.folder, 'node_modules', name));
  }

  /** Runs the work while the fault is in its file. */
  async with<T>({ file, start, end, text }: Fault, work: () => Promise<T>): Promise<T> {
    const path = join(this.folder, file);
    const whole = readFileSync(path, 'utf8');
    writeFileSync(path, whole.slice(0, start) + text + whole.slice(end));
    try {
      return await work();
    } finally {
      writeFileSync(path, whole);
    }
  }

  /** Runs test files, each within a bound. The first that fails ends the others. */
  async runTests(
    files: readonly string[],
    { bound_s, within }: { bound_s: number; within: AbortSignal },
  ): Promise<Report> {
    const report: Report = { seconds: new Map(), failed: null };
    if (files.length === 0) return report;
    const bounds = ['--bail', '--together', '16', '--bound', String(bound_s), '--leave', '10'];
    await this.node(['test/run.ts', ...bounds, ...files], within, (line) => {
      const [, end, file = '', seconds] =
        /^(FAIL|ok {2}) (test\/\S+\.test\.ts) .* ([\d.]+) s(?: |$)/.exec(line) ?? [];
      if (end === undefined || within.aborted || this.stop.aborted) return;
      report.seconds.set(file, Number(seconds));
      // After it the others fail, because they were ended.
      if (end === 'FAIL') report.failed ??= file;
    });
    return report;
  }

  /** Runs Node.js in the copy. The runner ends all that its tests started. */
  async node(
    args: readonly string[],
    within?: AbortSignal,
    print: (line: string) => void = () => {},
  ): Promise<number | null> {
    const child = spawn(process.execPath, args, {
      cwd: this.folder,
      stdio: ['ignore', 'pipe', 'ignore'],
      signal: AbortSignal.any([this.stop, ...(within === undefined ? [] : [within])]),
      killSignal: 'SIGTERM',
    });
    createInterface(child.stdout).on('line', print);
    // An abort is an error of the child; its end comes after it.
    child.on('error', () => {});
    return new Promise((resolve) => child.once('close', resolve));
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 3 });
  }
}
