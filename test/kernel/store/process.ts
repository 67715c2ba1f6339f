import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { waitFor } from '../../helpers/wait.ts';
import type { Place } from './samples.ts';

export interface Writer {
  child: ChildProcess;
  /** Its output, line by line. */
  lines: string[];
  /** The last event that it reported as durable. */
  acked(): number;
  command(line: 'one' | 'on' | 'prune'): void;
  /** Waits for a line that begins with one of these. Empty if it ended without one. */
  says(...starts: string[]): Promise<string>;
  /** Ends it, and waits for all its output. */
  end(signal: 'SIGKILL' | 'close'): Promise<void>;
}

/** Starts the writer of `writer.ts`; `wrapper` is a command that runs it. */
export function startWriter(
  place: Pick<Place, 'database' | 'highWater'>,
  options: SpawnOptions = {},
  wrapper: readonly string[] = [],
): Writer {
  const script = fileURLToPath(new URL('./writer.ts', import.meta.url));
  const [command = process.execPath, ...args] = [
    ...wrapper,
    process.execPath,
    ...process.execArgv,
    script,
    place.database,
    place.highWater,
  ];
  const child = spawn(command, args, { ...options, stdio: ['pipe', 'pipe', 'inherit'] });
  const lines: string[] = [];
  const acked = () => Number(lines.findLast((line) => line.startsWith('acked'))?.slice(6) ?? 0);
  let over = false;
  const ended = once(child, 'close').then(() => {
    over = true;
  });
  child.stdin?.on('error', () => {});
  if (child.stdout !== null)
    createInterface({ input: child.stdout }).on('line', (line) => lines.push(line));
  return {
    child,
    lines,
    acked,
    command: (line) => child.stdin?.write(`${line}\n`),
    says: (...starts) => {
      const said = () =>
        lines.find((line) => starts.some((start) => line.startsWith(start))) ?? (over ? '' : null);
      return waitFor(`the writer says ${starts.join(' or ')}`, said, {
        within_ms: 60_000,
        every_ms: 2,
      });
    },
    end: async (signal) => {
      if (signal === 'SIGKILL') child.kill(signal);
      else child.stdin?.end();
      await ended;
    },
  };
}
