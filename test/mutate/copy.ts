import { execFileSync, spawn } from 'node:child_process';
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import type { Fault } from './faults.ts';

/** A copy of the sources and tests, in which faults are planted and tests run. */
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
    symlinkSync(resolve('node_modules'), join(this.folder, 'node_modules'), 'dir');
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

  /** The first of these test files that fails; null: all pass, or the time is over. */
  async firstFailure(files: readonly string[], within: AbortSignal): Promise<string | null> {
    for (let from = 0; from < files.length && !within.aborted; from += FILES_AT_ONCE) {
      const some = files.slice(from, from + FILES_AT_ONCE);
      const printed = await this.node(['test/run.ts', '--bound', '60', ...some], within);
      const failed = printed.text.match(/^FAIL (\S+)/m)?.[1];
      if (failed !== undefined && !within.aborted) return failed;
    }
    return null;
  }

  /** Runs Node.js in the copy. The runner ends all that its tests started. */
  async node(
    args: readonly string[],
    within: AbortSignal,
  ): Promise<{ code: number | null; text: string }> {
    const child = spawn(process.execPath, args, {
      cwd: this.folder,
      stdio: ['ignore', 'pipe', 'pipe'],
      signal: AbortSignal.any([within, this.stop]),
      killSignal: 'SIGTERM',
    });
    const parts: Buffer[] = [];
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (part: Buffer) => parts.push(part));
    // An abort is an error of the child; its end comes after it.
    child.on('error', () => {});
    const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
    return { code, text: Buffer.concat(parts).toString() };
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

const FILES_AT_ONCE = 4;
