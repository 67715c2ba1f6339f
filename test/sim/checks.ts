import { readyWhen } from '../../machines/daemon/chart.ts';
import { runsToStart } from '../../machines/runs-to-start.ts';
import { isIn, statePath } from '../../machines/step.ts';
import { promptOf } from '../../src/contract/messages/parts.ts';
import type { Instance } from '../../src/kernel/instance.ts';
import { hasNoPlace, type RunView } from './oracle.ts';
import { hold } from './violation.ts';
import type { World } from './world.ts';

/** Invariants after each step. Most hold only while no event is on its way. */
export function checkMoment(world: World): void {
  const { life, disk, oracle } = world;
  if (life.ending !== null || !life.kernel.isOpen || oracle.daemon === null || life.isFatal) return;
  checkHealth(world);
  if (oracle.isRecovered) world.fairness.look((id) => oracle.aliasOf(id));
  const { kernel } = life;
  if (
    disk.waiting > 0 ||
    kernel.backlog > 0 ||
    kernel.stalled !== null ||
    !oracle.isRecovered ||
    isIn(oracle.daemon, 'starting') ||
    oracle.daemon.status !== 'active'
  )
    return;
  for (const run of oracle.unfinished.values()) checkRun(world, run);
  checkCounts(world);
  checkAdmission(world);
}

/** Health comes from the machine, and the machine from the log. */
function checkHealth({ life, oracle }: World): void {
  const { daemon } = oracle;
  if (daemon === null) return;
  // Events proposed before the store opened show at once. So do unrecordable ones on a full disk.
  if (life.kernel.stalled !== null || life.kernel.instance(life.daemon)?.seq !== oracle.daemonSeq)
    return;
  const { live, ready } = life.runtime.probe();
  hold(
    'health',
    live === daemon.hasTag('live') && ready === daemon.hasTag('ready'),
    () => `it says live ${live}, ready ${ready} in ${statePath(daemon)}`,
  );
  hold(
    'health',
    (readyWhen(daemon) === null) === ready,
    () => `ready ${ready}, when: ${readyWhen(daemon)}`,
  );
  hold(
    'health',
    statePath(life.snapshot) === statePath(daemon),
    () => `it is ${statePath(life.snapshot)} in memory and ${statePath(daemon)} in the log`,
  );
}

function checkRun(world: World, run: RunView): void {
  const { life, effects } = world;
  const instance = life.kernel.instances.get(run.id);
  hold('fold', instance !== undefined, () => `${run.alias} is unfinished and not in memory`);
  if (instance === undefined) return;
  hold(
    'fold',
    instance.tail === instance.snapshot && instance.version === run.version,
    () => `${run.alias} has version ${instance.version} in memory, ${run.version} in the log`,
  );
  hold(
    'fold',
    same(instance, run),
    () =>
      `${run.alias} is ${JSON.stringify(instance.snapshot.context)} in memory, ${JSON.stringify(run.snapshot.context)} in the log`,
  );
  const deadline = Math.min(...instance.deadlines().map(({ at }) => at));
  hold(
    'deadline-armed',
    deadline === Number.POSITIVE_INFINITY ||
      (instance.disarm !== null && instance.armedFor <= deadline),
    () => `${run.alias} waits in ${instance.path} with no deadline`,
  );
  if (!isIn(run.snapshot, 'starting')) return;
  const { attempt } = run.snapshot.context;
  hold(
    'effect-lost',
    effects.hasReached(run.id, attempt) || effects.wasLost(run.id, attempt),
    () => `attempt ${attempt} of ${run.alias} never began`,
  );
}

function same(instance: Instance, run: RunView): boolean {
  const [mine, theirs] = [instance.snapshot, run.snapshot];
  if (mine.value !== theirs.value && JSON.stringify(mine.value) !== JSON.stringify(theirs.value))
    return false;
  const context = mine.context as unknown as Record<string, unknown>;
  return Object.entries(theirs.context).every(
    ([name, value]) =>
      context[name] === value || JSON.stringify(context[name]) === JSON.stringify(value),
  );
}

/** Counters agree with the lists. */
function checkCounts({ life, oracle, places }: World): void {
  const { scheduler } = life;
  const unfinished = [...oracle.unfinished.values()];
  const { unsettled, capacity } = life.snapshot.context;
  // A stop does not wait for the persons that calls wait for.
  const handedOver = life.snapshot.hasTag('stopping')
    ? unfinished.filter(({ snapshot }) => snapshot.context.calls.length > 0)
    : [];
  hold(
    'unsettled',
    unsettled <= unfinished.length && unsettled >= unfinished.length - handedOver.length,
    () =>
      `the daemon counts ${unsettled} unsettled runs, there are ${unfinished.length} (${capacity} may be)`,
  );
  const waiting = unfinished.filter(({ snapshot }) => snapshot.hasTag('waiting'));
  const active = unfinished.filter(({ snapshot }) => !hasNoPlace(snapshot));
  hold(
    'queue',
    scheduler.queued === waiting.length,
    () => `${scheduler.queued} are in the queue, ${waiting.length} wait`,
  );
  hold(
    'queue',
    scheduler.running === active.length,
    () => `${scheduler.running} count as active, ${active.length} are`,
  );
  for (const [id, place] of places)
    if (place !== null)
      hold(
        'place',
        place === scheduler.position(id),
        () => `${oracle.aliasOf(id)} was told the place ${place} and has ${scheduler.position(id)}`,
      );
}

/** No run waits while there is a slot. */
function checkAdmission({ life, oracle, settings }: World): void {
  const { daemon } = oracle;
  if (daemon === null || !(daemon.hasTag('ready') || isIn(daemon, 'draining'))) return;
  const asked = (id: string) => {
    const run = oracle.runs.get(id);
    return {
      run_id: id,
      ...(run?.snapshot.context.request ?? { provider: '', model: '' }),
      isolated: run?.snapshot.context.isolated ?? false,
      unstarted: run !== undefined && isUnstarted(run),
    };
  };
  const waiting = life.scheduler.waitingRuns().map(asked);
  const idle = runsToStart(waiting, life.scheduler.activeRuns().map(asked), settings.places);
  hold(
    'no-idle-place',
    idle.length === 0,
    () => `${idle.map((id) => oracle.aliasOf(id))} wait, and could be answered`,
  );
}

/** Whether the run waits, or was cancelled while it waited: it needs no model in memory. */
function isUnstarted({ events }: RunView): boolean {
  const last = events.findLast(
    ({ type, data }) =>
      PLACED.has(type) || (type === 'run.attempt_failed' && data.next !== undefined),
  );
  return last?.type !== 'run.started';
}

/** After one of these a run has a place, or waits for one. */
const PLACED: ReadonlySet<string> = new Set([
  'run.accepted',
  'run.started',
  'run.suspended',
  'run.recovered',
  'run.turn_completed',
]);

/** After the quiet phase, each run has ended, and each client knows its true end. */
export async function checkEnd(world: World, isOver: boolean): Promise<void> {
  const { oracle, disk, clients, unansweredCalls } = world;
  const left = [...oracle.unfinished.values()].map(
    ({ alias, snapshot }) => `${alias} ${statePath(snapshot)}`,
  );
  hold(
    'liveness',
    isOver,
    () =>
      `it does not come to its end: ${left}; ${unansweredCalls}; ${world.life.ending ?? statePath(world.life.snapshot)}`,
  );
  const { start_ms, run_ms, cancel_grace_ms, drain_ms, close_ms } = world.settings.config.limits;
  const bound = 2 * start_ms + run_ms + cancel_grace_ms + drain_ms + close_ms;
  const took = oracle.awake(world.life.clock.now()) - world.quiet_since;
  hold(
    'liveness',
    took <= bound,
    () => `it took ${took} ms to come to its end, ${bound} are enough`,
  );
  const log = await disk.read();
  hold(
    'lost',
    log.length === oracle.log.length,
    () => `the disk has ${log.length} events of ${oracle.log.length}`,
  );
  for (const [index, event] of log.entries())
    hold(
      'lost',
      JSON.stringify(event) === JSON.stringify(oracle.log[index]),
      () => `the event ${event.seq} is another one on the disk`,
    );
  for (const run of oracle.runs.values())
    hold('one-end', run.ended, () => `${run.alias} has no end`);
  for (const client of clients) {
    for (const id of client.runs.keys())
      hold(
        'acknowledged',
        oracle.runs.has(id),
        () => `a run that ${client.name} was told of is not there`,
      );
    for (const run of oracle.runs.values())
      if (client.refused.has(promptOf(run.created.request))) checkRefused(world, run);
  }
}

/** No provider gets a refused run: it was taken back, unless the daemon died first. */
function checkRefused({ effects }: World, { id, alias, events, snapshot }: RunView): void {
  const { withdrawn, attempt, outputs } = snapshot.context;
  const isCutOff = events.some(({ boot_id }) => boot_id !== events[0]?.boot_id);
  hold(
    'refused',
    isCutOff || (withdrawn && outputs === 0 && !effects.hasReached(id, attempt)),
    () => `${alias} was refused, and answered`,
  );
}
