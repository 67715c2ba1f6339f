import { setTimeout as sleep } from 'node:timers/promises';

export interface WaitOptions {
  /** Longest wait, in milliseconds. Generous: it bounds a hang, it is no statement about speed. */
  within_ms?: number;
  every_ms?: number;
}

/** Asks until there is an answer that is neither false, null nor undefined, and returns it. Throws, naming `fact`, when the wait is over. */
export async function waitFor<T>(
  fact: string,
  ask: () => T | Promise<T>,
  options: WaitOptions = {},
): Promise<Exclude<Awaited<T>, false | null | undefined>> {
  const { within_ms = 30_000, every_ms = 10 } = options;
  const end = performance.now() + within_ms;
  for (;;) {
    const answer = await ask();
    if (answer !== false && answer !== null && answer !== undefined)
      return answer as Exclude<Awaited<T>, false | null | undefined>;
    if (performance.now() >= end) throw new Error(`waited ${within_ms} ms in vain: ${fact}`);
    await sleep(every_ms);
  }
}

/** The code of the error that the work ends with; undefined when it succeeds. */
export async function codeOf(work: Promise<unknown>): Promise<string | undefined> {
  return work.then(
    () => undefined,
    (error: { code?: string }) => error.code,
  );
}
