const WARM_MS = 5_000;

/**
 * Asks one after the other, each with its number. A daemon that is new runs in the interpreter of
 * V8, and needs twice the CPU.
 */
export async function warmUp(ask: (number: number) => Promise<unknown>): Promise<void> {
  const until = performance.now() + WARM_MS;
  for (let number = 1; performance.now() < until; number += 1) await ask(number);
}
