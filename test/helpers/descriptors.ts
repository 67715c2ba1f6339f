import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { waitFor } from './wait.ts';

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

/**
 * Waits until the daemon has no process for foreign work. One that ends later leaves its
 * descriptors free. Linux only.
 */
export async function untilNoWorkers(pid: number): Promise<void> {
  await waitFor('no process for foreign work is left', () => !childrenOf(pid).some(isWorker));
}

function childrenOf(pid: number): string[] {
  const tasks = `/proc/${pid}/task`;
  const lists = readdirSync(tasks).map((task) => readText(`${tasks}/${task}/children`));
  return lists.flatMap((list) => list.split(' ').filter(Boolean));
}

function isWorker(pid: string): boolean {
  return /-worker\.[jt]s\0/.test(readText(`/proc/${pid}/cmdline`));
}

/** Empty, when the process has ended. */
function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

/** How many TCP connections a process has open. Linux only. */
export function connectionsOf(pid: number): number {
  const listening = '0A';
  const connections = new Set(
    readFileSync(`/proc/${pid}/net/tcp`, 'utf8')
      .split('\n')
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      .filter((columns) => columns[3] !== listening)
      .map((columns) => `socket:[${columns[9]}]`),
  );
  return linksOf(pid).filter((link) => connections.has(link)).length;
}

/** The open descriptors of a process. Empty: it has ended, or is another user's. Linux only. */
export function linksOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).flatMap((name) => linkOf(`/proc/${pid}/fd/${name}`));
  } catch {
    return [];
  }
}

/** Empty, when the descriptor was closed a moment ago. */
function linkOf(path: string): string[] {
  try {
    return [readlinkSync(path)];
  } catch {
    return [];
  }
}

export const canTakeDescriptors = process.platform === 'linux';
