import { isTerminalEvent } from '../../machines/run/context.ts';
import { isIn } from '../../machines/step.ts';
import { act } from './actions.ts';
import { checkEnd, checkMoment } from './checks.ts';
import type { Mutant } from './mutants.ts';
import type { Stats } from './stats.ts';
import { Violation } from './violation.ts';
import { World } from './world.ts';

export interface Outcome {
  seed: number;
  steps: number;
  /** A hash of all steps, in order. */
  hash: number;
  stats: Stats;
  violation: Violation | null;
  trace: string[];
}

/** Steps with faults, and steps in which everything must end. */
const STORMY_MOST = 220;
const QUIET_MOST = 6000;

/** One simulation, from its seed. */
export async function simulate(
  seed: number,
  options: { mutant?: Mutant | null; traced?: boolean } = {},
): Promise<Outcome> {
  const unapply = options.mutant?.apply?.();
  const world = new World(seed, options);
  const unhandled = (error: unknown) => world.guard(() => fail('unhandled', error));
  process.on('unhandledRejection', unhandled);
  let steps = 0;
  try {
    const stormy = world.random.between(40, STORMY_MOST);
    await settle();
    for (; steps < stormy && world.violation === null; steps += 1) await step(world);
    world.calm();
    for (
      ;
      steps < stormy + QUIET_MOST && world.violation === null && !(await isOver(world));
      steps += 1
    )
      await step(world);
    if (world.violation === null) await checkEnd(world, steps < stormy + QUIET_MOST);
  } catch (error) {
    world.guard(() => fail('exception', error));
  } finally {
    process.off('unhandledRejection', unhandled);
    unapply?.();
  }
  world.stats.count('steps', steps);
  world.stats.count('runs', world.oracle.runs.size);
  world.stats.count('events', world.oracle.last_seq);
  world.stats.count('lives', world.lives);
  for (const { type, data } of world.oracle.log) {
    if (isTerminalEvent(type)) world.stats.count(`ended: ${type.slice(4)}`);
    else if (type === 'run.started')
      world.stats.count(
        data.resumes === true ? 'attempts that resume' : 'attempts from the beginning',
      );
    else if (type === 'run.attempt_failed' && data.next !== undefined)
      world.stats.count('runs that go on at another target');
    else if (type === 'run.suspended' || type === 'run.recovered')
      world.stats.count(`runs ${type.slice(4)}`);
    else if (['daemon.store_filled', 'daemon.disk_stalled', 'daemon.stopped'].includes(type))
      world.stats.count(type);
  }
  return {
    seed,
    steps,
    hash: world.hash >>> 0,
    stats: world.stats,
    violation: world.violation,
    trace: world.trace ?? [],
  };
}

function fail(invariant: string, error: unknown): never {
  throw error instanceof Violation
    ? error
    : new Violation(
        invariant,
        error instanceof Error ? (error.stack ?? error.message) : String(error),
      );
}

async function step(world: World): Promise<void> {
  world.guard(() => act(world));
  await settle();
  if (world.violation === null) world.guard(() => checkMoment(world));
}

/** Waits until no promise has pending effects. */
function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** All runs have ended, no client waits, and each follower has seen the end. */
async function isOver({ oracle, disk, life, unansweredCalls, clients }: World): Promise<boolean> {
  if (
    oracle.unfinished.size > 0 ||
    disk.waiting > 0 ||
    life.ending !== null ||
    unansweredCalls.length > 0
  )
    return false;
  return (
    isIn(life.snapshot, 'ready') &&
    clients.every((client) => client.followers.every((follower) => follower.done))
  );
}
