import { Worker } from 'node:worker_threads';

/** The process that works on third-party content: see `ForeignWork`, which starts it. */

/** Sent when the work begins, so that the start of the process does not count. */
export const BEGUN = 'begun';

/** Messages of the process. */
export type Said =
  | typeof BEGUN
  | { answer: unknown }
  | { thrown: { message: string; code: string | undefined } };

/** A question, and the processor time for its answer. */
export interface Asked<Q> {
  question: Q;
  ms: number;
}

/**
 * Answers each question of the daemon. Call it once, in the first file of the process. `within`
 * says how much processor time the rest of the answer has.
 */
export function answerQuestions<Q, A>(
  answer: (question: Q, within: (ms: number) => void) => A | Promise<A>,
): void {
  const watcher = watch();
  // Only the daemon that started it has the channel.
  process.on('disconnect', () => process.exit(0));
  // A terminal sends signals to the whole group; the daemon handles them.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR1'] as const)
    process.on(signal, () => {});
  process.on('message', async ({ question, ms }: Asked<Q>) => {
    // The work may block the process, so this is on its way before.
    await new Promise<void>((sent) => process.send?.(BEGUN, undefined, {}, () => sent()));
    watcher.postMessage(ms);
    const said = await answerOf(() => answer(question, (less) => watcher.postMessage(less)));
    watcher.postMessage(null);
    process.send?.(said, undefined, {}, () => {});
  });
}

async function answerOf(answer: () => unknown): Promise<Said> {
  try {
    return { answer: await answer() };
  } catch (thrown) {
    const { message, code } = thrown as NodeJS.ErrnoException;
    return { thrown: { message: String(message), code } };
  }
}

/**
 * Kills the process once it has more memory than its bound, has worked for longer than it may, or
 * its daemon is gone. The work may block the first thread, so another one looks.
 */
function watch(): Worker {
  const watcher = new Worker(WATCHER, {
    eval: true,
    workerData: { memory_bytes: Number(process.argv[2]), daemon: process.ppid, OUT_OF_TIME },
    resourceLimits: { maxOldGenerationSizeMb: 8, maxYoungGenerationSizeMb: 1 },
  });
  watcher.unref();
  return watcher;
}

/** By it the process ends that has used the processor for too long. */
export const OUT_OF_TIME = 'SIGVTALRM';

const LOOK_MS = 20;
const WATCHER = `
const { parentPort, workerData } = require('node:worker_threads');
const { memory_bytes, daemon, OUT_OF_TIME } = workerData;
const usedMs = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};
let until = Infinity;
parentPort.on('message', (ms) => {
  until = ms === null ? Infinity : usedMs() + ms;
});
const isGone = () => {
  try {
    return process.ppid !== daemon || !process.kill(daemon, 0);
  } catch {
    return true;
  }
};
setInterval(() => {
  if (process.memoryUsage.rss() > memory_bytes || isGone()) process.kill(process.pid, 'SIGKILL');
  if (usedMs() > until) process.kill(process.pid, OUT_OF_TIME);
}, ${LOOK_MS});
`;
