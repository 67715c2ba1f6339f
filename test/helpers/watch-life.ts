import { readFileSync } from 'node:fs';
import type { Life } from '../torture/daemon.ts';

const memoryOf = ({ pid }: Life) =>
  1024 * Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);

/** Processor time of a process, in ms: its user and system time, in ticks of 10 ms. */
function workOf({ pid }: Life): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  return 10 * (Number(fields[11]) + Number(fields[12]));
}

/**
 * Asks `/livez` all the time, until what it returns is called. `work_ms`: the most that the daemon
 * worked until it answered one question. The clock would measure how busy the machine is.
 */
export async function watch(life: Life) {
  const { addresses } = await life.ask((client) => client.call('status'));
  const seen = { work_ms: 0, asked: 0, memory: 0 };
  const idle = memoryOf(life);
  let isOver = false;
  void life.ended.then(() => {
    isOver = true;
  });
  const asking = (async () => {
    while (!isOver) {
      const before = workOf(life);
      const response = await fetch(`${addresses.http}/livez`).catch(() => null);
      if (response === null) continue;
      seen.work_ms = Math.max(seen.work_ms, workOf(life) - before);
      seen.memory = Math.max(seen.memory, memoryOf(life) - idle);
      seen.asked += 1;
    }
  })();
  return async () => {
    isOver = true;
    await asking;
    return seen;
  };
}
