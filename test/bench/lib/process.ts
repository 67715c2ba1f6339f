import { readFileSync } from 'node:fs';

/** Resident memory of a process, in MiB. Zero where the system does not say. */
export function residentMib(pid: number): number {
  const match = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Number(match?.[1] ?? 0) / 1024;
}

/** CPU time that a process has used, in ms, in steps of 10 ms. */
export function cpuMs(pid: number): number {
  const [user = 0, system = 0] =
    readFileSync(`/proc/${pid}/stat`, 'utf8')
      .split(') ')[1]
      ?.split(' ')
      .slice(11, 13)
      .map(Number) ?? [];
  return (user + system) * TICK_MS;
}

/** CPU time of the children of this process that have ended, in ms. */
export function childrenCpuMs(): number {
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[13]) + Number(fields[14])) * TICK_MS;
}

/** CPU time of a process and of its children, in ms. */
export function familyCpuMs(pid: number): number {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ');
  return children
    .filter((child) => child !== '')
    .reduce((sum, child) => sum + cpuMs(Number(child)), cpuMs(pid));
}

const TICK_MS = 10;
