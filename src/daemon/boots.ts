import type { SvcError } from '../errors.ts';

/** Waits so many milliseconds. */
export type Wait = (ms: number) => Promise<unknown>;

/**
 * The boots of one process. A boot that lost its lease is followed by another one, always: the
 * waits between them only grow. `rejoins`: the boot before lost its lease. Resolves with the
 * failure of the last boot; null: it stopped.
 */
export async function bootUntilEnd(
  boot: (rejoins: boolean) => Promise<SvcError | null>,
  wait: Wait,
): Promise<SvcError | null> {
  for (let losses = 0; ; ) {
    const began = performance.now();
    const failure = await boot(losses > 0);
    if (failure?.code !== 'lease_lost') return failure;
    losses = performance.now() - began < LASTED_MS ? losses + 1 : 1;
    await betweenBoots(() => wait(Math.min(AGAIN_MAX_MS, AGAIN_MS * 2 ** (losses - 1))));
  }
}

/** No boot hears an error now. It comes from one that has ended, so nothing depends on it. */
async function betweenBoots(wait: () => Promise<unknown>): Promise<void> {
  const warn = (error: unknown) =>
    process.emitWarning(error instanceof Error ? error : String(error));
  for (const event of UNCAUGHT) process.on(event, warn);
  await wait().finally(() => {
    for (const event of UNCAUGHT) process.off(event, warn);
  });
}

const UNCAUGHT = ['uncaughtException', 'unhandledRejection'] as const;

/** A boot that lasts this long begins the waits again. */
const LASTED_MS = 60_000;
/** The wait after the first loss, and the longest one: as long as a lease. */
const AGAIN_MS = 250;
const AGAIN_MAX_MS = 10_000;
