import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';

/**
 * Opens descriptors until a process has only `free` left. Returns the function that closes them.
 * Linux only.
 */
export function takeDescriptors(pid: number, free = 0): () => void {
  const limits = () =>
    execFileSync(
      'prlimit',
      ['--pid', String(pid), '--nofile', '--noheadings', '--output=SOFT,HARD'],
      { encoding: 'utf8' },
    );
  const [soft, hard] = limits().trim().split(/\s+/);
  const open = new Set(readdirSync(`/proc/${pid}/fd`).map(Number));
  let bound = 0;
  for (let left = free; left >= 0; bound += 1) if (!open.has(bound)) left -= 1;
  const set = (value: string) =>
    execFileSync('prlimit', ['--pid', String(pid), `--nofile=${value}:${hard}`]);
  set(String(bound - 1));
  return () => set(String(soft));
}

/** How many descriptors a process has open. Linux only. */
export function descriptorsOf(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

export const canTakeDescriptors = process.platform === 'linux';
