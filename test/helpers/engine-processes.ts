import { readFile } from 'node:fs/promises';

/**
 * Pids of the engine processes that this daemon has started, whether or not they have loaded a model. One that is not its own program yet does
 * not count: until then the daemon waits for it, and would wait on if it were stopped.
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
