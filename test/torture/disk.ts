import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs';
import { join } from 'node:path';

/** Mounts a disk of a few megabytes over a folder; null if mounting is not permitted. */
export function mountOver(folder: string, megabytes: number): { unmount(): void } | null {
  const { status } = spawnSync('mount', [
    '-t',
    'tmpfs',
    '-o',
    `size=${megabytes}m,mode=700`,
    'tmpfs',
    folder,
  ]);
  return status === 0 ? { unmount: () => void spawnSync('umount', ['-l', folder]) } : null;
}

/**
 * Fills the disk of a folder with as much as was free. Space that becomes free meanwhile stays
 * free: a daemon whose commit fails now spends its reserve.
 */
export function fill(folder: string): void {
  const { bavail, bsize } = statfsSync(folder);
  const fd = openSync(join(folder, BALLAST), 'a');
  try {
    let left = bavail * bsize;
    for (let size = 1024 * 1024; size >= 512 && left > 0; ) {
      const count = written(fd, Math.min(size, left));
      left -= count;
      if (count === 0) size /= 2;
    }
  } finally {
    closeSync(fd);
  }
}

function written(fd: number, size: number): number {
  try {
    return writeSync(fd, Buffer.alloc(size));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOSPC') return 0;
    throw error;
  }
}

export function empty(folder: string): void {
  rmSync(join(folder, BALLAST), { force: true });
}

/** Arguments of strace that make system calls fail or wait, such as `fsync:error=EIO:when=2+`. */
export function injecting(fault: string): string[] {
  return [
    '-f',
    '-e',
    `trace=${fault.split(':')[0]}`,
    '-e',
    'signal=none',
    '-o',
    '/dev/null',
    '-e',
    `inject=${fault}`,
  ];
}

/**
 * Makes system calls of a process and its threads fail. Resolves with the function that ends it.
 */
export async function inject(pid: number, fault: string): Promise<() => Promise<void>> {
  const tracer = spawn('strace', [...injecting(fault), '-p', String(pid)], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const ended = once(tracer, 'close');
  await Promise.race([once(tracer.stderr, 'data'), ended]);
  return async () => {
    tracer.kill('SIGINT');
    await ended;
  };
}

/**
 * Blocks the disk of a process: its thread waits in the call. Resolves with the function that
 * ends it.
 */
export async function silence(pid: number): Promise<() => Promise<void>> {
  const tracer = spawn(
    'strace',
    [...injecting(`fsync,fdatasync:delay_enter=${SILENCE_US}`), '-p', String(pid)],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  const ended = once(tracer, 'close');
  await Promise.race([once(tracer.stderr, 'data'), ended]);
  return async () => {
    // While it delays a call, it ignores other signals.
    tracer.kill('SIGKILL');
    await ended;
  };
}

/** Longer than any test. It ends with the tracer. */
const SILENCE_US = 600_000_000;

/** True if the command can run here. */
export function works(command: string, ...args: string[]): boolean {
  return spawnSync(command, args).status === 0;
}

const BALLAST = 'ballast';
