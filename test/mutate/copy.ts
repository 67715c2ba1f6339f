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
import { type Fault, SWITCH, withSwitches } from './faults.ts';
import { FOLDERS, ON, type On, RAN } from './switch.ts';

/** What the test files of one call did. */
export interface Report {
  /** Seconds of each file that ended. */
  seconds: Map<string, number>;
  /** The files that failed. After the first of a run with `bail` the others were ended. */
  failed: string[];
}

const SWITCHES = 'test/mutate/switch.ts';

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

  /** Plants all faults, by their numbers. Each is off. */
  plant(faults: readonly Fault[]): void {
    const folder = JSON.stringify(this.folder);
    const switching =
      `\nimport { isOn as isOn_ } from ${JSON.stringify(join(this.folder, SWITCHES))};\n` +
      `function ${SWITCH}(id: number): boolean { return isOn_(id, ${folder}); }\n`;
    const ids = new Map(faults.map((fault, id) => [id, fault]));
    for (const file of new Set(faults.map((fault) => fault.file))) {
      const path = join(this.folder, file);
      const own = new Map([...ids].filter(([, fault]) => fault.file === file));
      const text = withSwitches(readFileSync(path, 'utf8'), own);
      writeFileSync(path, text + switching);
    }
  }

  /** Runs the work while this is on. */
  async with<T>(on: On, work: () => Promise<T>): Promise<T> {
    const path = join(this.folder, ON);
    writeFileSync(path, String(on));
    try {
      return await work();
    } finally {
      writeFileSync(path, 'none');
    }
  }

  /** Runs the work while files have a fault in their text, without a switch: one in each file. */
  async withTexts<T>(faults: readonly Fault[], work: () => Promise<T>): Promise<T> {
    const wholes = new Map(
      faults.map(({ file }) => [file, readFileSync(join(this.folder, file), 'utf8')]),
    );
    const write = (file: string, text: string) => writeFileSync(join(this.folder, file), text);
    try {
      for (const { file, start, end, text } of faults) {
        const whole = wholes.get(file) ?? '';
        write(file, whole.slice(0, start) + text + whole.slice(end));
      }
      return await work();
    } finally {
      for (const [file, whole] of wholes) write(file, whole);
    }
  }

  /** The numbers of the faults that each test file has run, as recorded. */
  readRan(): Map<string, Set<number>> {
    const lines = (name: string) => {
      const path = join(this.folder, name);
      return existsSync(path) ? readFileSync(path, 'utf8').split('\n') : [];
    };
    const files = new Map(lines(FOLDERS).map((line) => line.split(' ') as [string, string]));
    const ran = new Map<string, Set<number>>();
    for (const line of lines(RAN)) {
      const file = files.get(/\S*svct-\w+\/t-\w+/.exec(line)?.[0] ?? '');
      if (file === undefined) continue;
      const ids = ran.get(file) ?? new Set();
      ran.set(file, ids.add(Number.parseInt(line, 10)));
    }
    return ran;
  }

  /** Runs test files, each within a bound. With `bail` the first that fails ends the others. */
  async runTests(
    files: readonly string[],
    { bound_s, bail, within }: { bound_s: number; bail: boolean; within: AbortSignal },
  ): Promise<Report> {
    const report: Report = { seconds: new Map(), failed: [] };
    if (files.length === 0) return report;
    const bounds = ['--together', '16', '--bound', String(bound_s), '--leave', '10'];
    const options = [...(bail ? ['--bail'] : []), '--folders', FOLDERS];
    await this.node(['test/run.ts', ...bounds, ...options, ...files], within, (line) => {
      const [, end, file = '', seconds] =
        /^(FAIL|ok {2}) (test\/\S+\.test\.ts) .* ([\d.]+) s(?: |$)/.exec(line) ?? [];
      if (end === undefined || within.aborted || this.stop.aborted) return;
      report.seconds.set(file, Number(seconds));
      if (end === 'FAIL') report.failed.push(file);
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
