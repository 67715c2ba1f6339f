import { readFile } from 'node:fs/promises';

/**
 * Pids of the engine processes of this daemon, with or without a model. A process that does not yet
 * run its own program does not count. The daemon still waits for it, and would hang if a test
 * stopped it.
 */
export async function engineProcesses(daemon: number): Promise<number[]> {
  const children = await readFile(`/proc/${daemon}/task/${daemon}/children`, 'utf8').catch(
    () => '',
  );
  const pids = children.trim().split(' ').filter(Boolean).map(Number);
  const programs = await Promise.all(
    pids.map((child) => readFile(`/proc/${child}/cmdline`, 'utf8').catch(() => '')),
  );
  return pids.filter((_, index) => programs[index]?.includes('engine'));
}
