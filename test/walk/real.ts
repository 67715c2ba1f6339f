import { Walked } from './edges.ts';

/** Lives that are led at the same time: a life waits more than it works. */
const AT_ONCE = 3;

/** Leads every life, and tells what was walked in all of them. */
export async function leadLives(lives: readonly (() => Promise<Walked>)[]): Promise<Walked> {
  const all = new Walked();
  const waiting = [...lives];
  const lead = async () => {
    for (let life = waiting.shift(); life !== undefined; life = waiting.shift()) {
      const name = life.name;
      all.add(
        await life().catch((error: unknown) => {
          throw new Error(`the life ${name}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
        }),
      );
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lead));
  return all;
}
