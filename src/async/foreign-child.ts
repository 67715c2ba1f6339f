import { Worker } from 'node:worker_threads';

/** The process that works on content of others: see `ForeignWork`, which starts it. */

/** Sent when the work begins, so that the start of the process does not count. */
export const BEGUN = 'begun';

/** Messages of the process. */
export type Said =
  | typeof BEGUN
  | { answer: unknown }
  | { thrown: { message: string; code: string | undefined } };

/** Answers each question of the daemon. Call it once, in the first file of the process. */
export function answerQuestions<Q, A>(answer: (question: Q) => A | Promise<A>): void {
  watch();
  // Only the daemon that started it has the channel.
  process.on('disconnect', () => process.exit(0));
  // A terminal sends signals to the whole group; the daemon handles them.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR1'] as const)
    process.on(signal, () => {});
  process.on('message', async (question: Q) => {
    // The work may block the process, so this is on its way before.
    await new Promise<void>((sent) => process.send?.(BEGUN, undefined, {}, () => sent()));
    process.send?.(await saidOf(question, answer), undefined, {}, () => {});
  });
}

async function saidOf<Q, A>(question: Q, answer: (question: Q) => A | Promise<A>): Promise<Said> {
  try {
    return { answer: await answer(question) };
  } catch (thrown) {
    const { message, code } = thrown as NodeJS.ErrnoException;
    return { thrown: { message: String(message), code } };
  }
}

/**
 * Kills the process once it has more memory than its bound, or its daemon is gone. The work may
 * block the first thread, so another one looks.
 */
function watch(): void {
  const watcher = new Worker(WATCHER, {
    eval: true,
    workerData: { memory_bytes: Number(process.argv[2]), daemon: process.ppid },
    resourceLimits: { maxOldGenerationSizeMb: 8, maxYoungGenerationSizeMb: 1 },
  });
  watcher.unref();
}

const LOOK_MS = 20;
const WATCHER = `
const { workerData: { memory_bytes, daemon } } = require('node:worker_threads');
const isGone = () => {
  try {
    return process.ppid !== daemon || !process.kill(daemon, 0);
  } catch {
    return true;
  }
};
setInterval(() => {
  if (process.memoryUsage.rss() > memory_bytes || isGone()) process.kill(process.pid, 'SIGKILL');
}, ${LOOK_MS});
`;
