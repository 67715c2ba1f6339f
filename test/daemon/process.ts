import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { packageRoot } from '../../src/home/paths.ts';
import type { Home } from '../helpers/svc.ts';

/**
 * Starts a daemon from the sources in a separate process. `trouble` says what its store does and
 * from which step on. `none` changes nothing; for `held`, see blocked-thread.ts.
 */
export function serve(home: Home, trouble: string, limits: NodeJS.ProcessEnv = {}) {
  const root = packageRoot();
  const folder = join(root, 'test', 'daemon');
  const held = trouble === 'held' ? ['--import', join(folder, 'blocked-thread.ts')] : [];
  const args = [...held, join(folder, 'troubled-daemon.ts'), trouble];
  const child = spawn(process.execPath, args, {
    cwd: root,
    // Without what Node compiled before, each process would compile all of the sources.
    env: { ...home.env, NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE, ...limits },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 60_000,
    // Not the signal that the daemon sends to itself.
    killSignal: 'SIGALRM',
  });
  let out = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      out += text;
    });
  }
  const ended = new Promise<{ code: number | null; signal: string | null }>((resolve) =>
    child.on('close', (code, signal) => resolve({ code, signal })),
  );
  return { child, ended, out: () => out };
}

export const isReady = (daemon: ReturnType<typeof serve>) => () =>
  /"msg":"ready /.test(daemon.out());
