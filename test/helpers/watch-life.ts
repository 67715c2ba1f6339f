import { cpuMs, residentMib } from '../bench/lib/process.ts';
import type { Life } from '../torture/daemon.ts';

const memoryOf = ({ pid }: Life) => residentMib(pid) * 1024 * 1024;

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
      const before = cpuMs(life.pid);
      const response = await fetch(`${addresses.http}/livez`).catch(() => null);
      if (response === null) continue;
      seen.work_ms = Math.max(seen.work_ms, cpuMs(life.pid) - before);
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
