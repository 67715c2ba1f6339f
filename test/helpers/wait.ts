import { setTimeout as sleep } from 'node:timers/promises';

export interface WaitOptions {
  /** Longest wait, in milliseconds. It bounds a hang and says nothing about speed. */
  within_ms?: number;
  /** Longest pause between two polls, for what does not last. */
  every_ms?: number;
}

/** A pause is a part of the wait so far: polls of a long wait take little from its cause. */
const PAUSE_SHARE = 0.1;
const PAUSE_MS_MAX = 250;
/** A model loads slowly on a busy machine. */
const WITHIN_MS = 120_000;

/**
 * Polls until the answer is not false, null or undefined, and returns it. Throws with the name of
 * `what` after the longest wait. A function gives the name at that time. Most answers are near, so
 * the first pauses are short.
 */
export async function waitFor<T>(
  what: string | (() => string),
  ask: () => T | Promise<T>,
  options: WaitOptions = {},
): Promise<Exclude<Awaited<T>, false | null | undefined>> {
  const { within_ms = WITHIN_MS, every_ms = PAUSE_MS_MAX } = options;
  const began = performance.now();
  for (;;) {
    const answer = await ask();
    if (answer !== false && answer !== null && answer !== undefined)
      return answer as Exclude<Awaited<T>, false | null | undefined>;
    const waited_ms = performance.now() - began;
    if (waited_ms >= within_ms) {
      const name = typeof what === 'string' ? what : what();
      throw new Error(`waited ${within_ms} ms in vain: ${name}`);
    }
    await sleep(Math.min(every_ms, Math.max(1, waited_ms * PAUSE_SHARE)));
  }
}

/** The code of the error of the work; undefined when it succeeds. */
export async function codeOf(work: Promise<unknown>): Promise<string | undefined> {
  return work.then(
    () => undefined,
    (error: { code?: string }) => error.code,
  );
}
