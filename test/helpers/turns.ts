/**
 * Runs everything that is ready: settled promises and what follows from them. It waits for no time.
 */
export async function turns(count = 5): Promise<void> {
  for (let turn = 0; turn < count; turn += 1)
    await new Promise<void>((resolve) => setImmediate(resolve));
}
