import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { platform } from '../../src/home/platform.ts';

export interface Sleeper {
  pid: number;
  process_start: string | null;
  isAlive(): boolean;
  /** Kills it, and resolves when it is gone. */
  end(): Promise<void>;
  /** The signal that ended it. */
  ended: Promise<NodeJS.Signals | null>;
}

/** A process that does nothing until it is ended; `deaf` ignores SIGTERM. */
export async function startSleeper({ deaf = false }: { deaf?: boolean } = {}): Promise<Sleeper> {
  const program = `${deaf ? "process.on('SIGTERM', () => {});" : ''} setInterval(() => {}, 1e6); console.log('up')`;
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  const pid = child.pid ?? 0;
  const ended = once(child, 'exit').then(([, signal]) => signal as NodeJS.Signals | null);
  return {
    pid,
    process_start: platform.processStart(pid),
    isAlive: () => child.exitCode === null && child.signalCode === null,
    ended,
    end: async () => {
      child.kill('SIGKILL');
      await ended;
    },
  };
}
