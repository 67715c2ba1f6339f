import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { packageRoot } from '../../src/home/paths.ts';
import type { Home } from '../helpers/svc.ts';

/** A daemon in a process of its own, from the sources. Its store does from a step on what `trouble` says; `none`: it is as it is; `held`: see blocked-thread.ts. */
export function serve(home: Home, trouble: string, limits: NodeJS.ProcessEnv = {}) {
  const root = packageRoot();
  const folder = join(root, 'test', 'daemon');
  const held = trouble === 'held' ? ['--import', join(folder, 'blocked-thread.ts')] : [];
  const args = ['--import', 'tsx', ...held, join(folder, 'troubled-daemon.ts'), trouble];
  const child = spawn(process.execPath, args, {
    cwd: root,
    env: { ...home.env, ...limits },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 60_000,
    // Not the one by which it may end itself.
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
  /"msg":"ready"/.test(daemon.out());
