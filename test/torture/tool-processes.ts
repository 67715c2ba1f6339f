import { readFileSync } from 'node:fs';
import { processTree } from '../../src/providers/local/memory-watch.ts';
import { SCRIPTED } from '../helpers/tool-servers.ts';

/** Pids of the scripted tool servers of a daemon, and not of what watches over them. */
export async function serverProcesses(daemon: number): Promise<number[]> {
  const pids = await processTree(daemon);
  return pids.filter((pid) => {
    try {
      const [program, script] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
      return program === process.execPath && script === SCRIPTED;
    } catch {
      return false;
    }
  });
}
