import { readFileSync } from 'node:fs';
import type { Life } from '../torture/daemon.ts';

const memoryOf = ({ pid }: Life) =>
  1024 * Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);

/** Asks `/livez` all the time, until what it returns is called. */
export async function watch(life: Life) {
  const { addresses } = await life.ask((client) => client.call('status'));
  const seen = { slowest_ms: 0, asked: 0, memory: 0 };
  const idle = memoryOf(life);
  let isOver = false;
  void life.ended.then(() => {
    isOver = true;
  });
  const asking = (async () => {
    while (!isOver) {
      const begun = performance.now();
      const response = await fetch(`${addresses.http}/livez`).catch(() => null);
      if (response === null) continue;
      seen.slowest_ms = Math.max(seen.slowest_ms, performance.now() - begun);
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
