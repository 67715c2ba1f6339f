import { Walked } from './edges.ts';
import { closeOpened } from './opened.ts';

/** How many scenarios run at the same time: a scenario waits more than it works. */
const AT_ONCE = 3;

/** Runs every boot and returns the walked edges. Closes everything, then throws the first error. */
export async function runScenarios(scenarios: readonly (() => Promise<Walked>)[]): Promise<Walked> {
  const all = new Walked();
  const waiting = [...scenarios];
  const failures: Error[] = [];
  const lead = async () => {
    for (let scenario = waiting.shift(); scenario !== undefined; scenario = waiting.shift()) {
      try {
        all.add(await scenario());
      } catch (error) {
        const why: string[] = [];
        for (let each: unknown = error; each instanceof Error; each = each.cause)
          why.push(each.message);
        failures.push(
          new Error(`the scenario ${scenario.name}: ${why.join(': ') || error}`, { cause: error }),
        );
        // The others cannot go on without what they have opened either: they end soon, and nothing
        // is left behind.
        waiting.length = 0;
        await closeOpened();
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lead));
  await closeOpened();
  const [failure] = failures;
  if (failure !== undefined) throw failure;
  return all;
}
