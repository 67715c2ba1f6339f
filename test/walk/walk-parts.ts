import fc from 'fast-check';
import { Walked } from './edges.ts';
import { type Action, World } from './world.ts';

const ACTIONS_MAX = 60;

const at = fc.nat({ max: 5 });
const action: fc.Arbitrary<Action> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('run' as const),
      provider: fc.constantFrom('local' as const, 'up' as const),
      recovery: fc.constantFrom('resume' as const, 'restart' as const, 'end' as const),
      timeout_ms: fc.constantFrom(600, 600_000),
    }),
  },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('say' as const), at }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom(
        'finish' as const,
        'fail' as const,
        'refuse' as const,
        'lose' as const,
        'cut' as const,
      ),
      at,
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('cancel' as const), at }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('wait' as const),
      ms: fc.constantFrom(10, 500, 1000, 4000),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('stop' as const),
      mode: fc.constantFrom('drain' as const, 'force' as const),
    }),
  },
  { weight: 2, arbitrary: fc.constant({ do: 'crash' as const }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('disk' as const), full: fc.boolean() }) },
  { weight: 1, arbitrary: fc.constant({ do: 'prune' as const }) },
  { weight: 2, arbitrary: fc.constantFrom<Action>({ do: 'dig_in' }, { do: 'let_go' }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('stale' as const), at }) },
);

/**
 * Random scenarios of the runtime with its real parts, from fixed seeds. Throws the shortest one
 * that breaks a promise.
 */
export async function walkParts(
  scenarios: number,
  seed = 5,
): Promise<{ walked: Walked; stale: number }> {
  const walked = new Walked();
  let stale = 0;
  const property = fc.asyncProperty(
    fc.array(action, { minLength: 10, maxLength: ACTIONS_MAX, size: 'max' }),
    async (actions) => {
      const world = await World.open();
      for (const next of actions) await world.act(next);
      walked.add(await world.leave());
      stale += world.stale;
    },
  );
  await fc.assert(property, { numRuns: scenarios, seed, endOnFailure: false });
  return { walked, stale };
}
