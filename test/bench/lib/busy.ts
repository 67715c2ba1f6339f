import { type ChildProcess, spawn } from 'node:child_process';

/** Does some work while so many processes keep a core each busy. */
export async function busily(count: number, work: () => Promise<void>): Promise<void> {
  const beside = Array.from({ length: count }, () =>
    spawn(process.execPath, ['-e', 'for (;;) {}'], { stdio: 'ignore' }),
  );
  try {
    await work();
  } finally {
    await Promise.all(beside.map(end));
  }
}

async function end(child: ChildProcess): Promise<void> {
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await ended;
}
