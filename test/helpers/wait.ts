import { setTimeout as sleep } from 'node:timers/promises';

export interface WaitOptions {
  /** Longest wait, in milliseconds. It bounds a hang and says nothing about speed. */
  within_ms?: number;
  /** Longest pause between two polls. */
  every_ms?: number;
}

/**
 * Polls until the answer is not false, null or undefined, and returns it. Throws with the name of
 * `what` after the longest wait. Most answers are near, so the first pauses are short.
 */
export async function waitFor<T>(
  what: string,
  ask: () => T | Promise<T>,
  options: WaitOptions = {},
): Promise<Exclude<Awaited<T>, false | null | undefined>> {
  const { within_ms = 30_000, every_ms = 10 } = options;
  const end = performance.now() + within_ms;
  for (let pause_ms = 1; ; pause_ms *= 2) {
    const answer = await ask();
    if (answer !== false && answer !== null && answer !== undefined)
      return answer as Exclude<Awaited<T>, false | null | undefined>;
    if (performance.now() >= end) throw new Error(`waited ${within_ms} ms in vain: ${what}`);
    await sleep(Math.min(every_ms, pause_ms));
  }
}

/** The code of the error of the work; undefined when it succeeds. */
export async function codeOf(work: Promise<unknown>): Promise<string | undefined> {
  return work.then(
    () => undefined,
    (error: { code?: string }) => error.code,
  );
}
