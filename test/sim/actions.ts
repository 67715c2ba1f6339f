import { stream } from '../../src/kernel/stream.ts';
import { mix } from './random.ts';
import type { Stream } from './stream.ts';
import type { World } from './world.ts';

/** Draws the next action by weight. In the quiet phase, no faults. */
export function act(world: World): void {
  const { life, random, isQuiet } = world;
  if (life.ending !== null) endLife(world);
  else if (life.isFatal && random.onceIn(4)) die(world, 'failed');
  else draw(world, isQuiet ? quiet(world) : [...ordinary(world), ...faults(world)]);
}

type Choice = readonly [weight: number, perform: () => void];

function draw(world: World, choices: readonly Choice[]): void {
  let total = 0;
  for (const [weight] of choices) total += weight;
  let drawn = world.random.below(total);
  for (const [index, [weight, perform]] of choices.entries()) {
    drawn -= weight;
    if (drawn >= 0) continue;
    world.hash = mix(world.hash, index);
    perform();
    return;
  }
}

/** A boot that ends by itself closes the store after its earlier calls. */
function endLife(world: World): void {
  if (world.disk.waiting > 0) world.disk.step();
  else world.rebirth();
}

function ordinary(world: World): Choice[] {
  const { disk, settings, random, clients, tools } = world;
  const client = random.pick(clients);
  const ready = readyStreams(world);
  const ghosts = world.ghosts.filter((stream) => stream.ready);
  return [
    [disk.waiting > 0 ? settings.faults.disk : 0, () => disk.step()],
    [ready.length > 0 ? 100 : 0, () => random.pick(ready).act()],
    [tools.open.size > 0 ? 60 : 0, () => tools.act()],
    [tools.waits ? 40 : 0, () => tools.decide()],
    [30, () => client.start()],
    [12, () => client.follow()],
    [4, () => client.disconnect()],
    [4, () => client.cancel()],
    [3, () => client.look()],
    [2, () => client.list()],
    [ghosts.length > 0 ? 3 : 0, () => random.pick(ghosts).act()],
    [world.asleep > 0 ? 8 : 0, () => world.wakeAll()],
    [8, () => pass(world, random.pick([1, 10, 400, 3000]))],
    [8, () => fire(world)],
  ];
}

function faults(world: World): Choice[] {
  const { disk, settings, random, upstreams, life } = world;
  const weights = settings.faults;
  return [
    [weights.crash, () => die(world, 'crashed')],
    [weights.stop, () => stop(world, 'drain')],
    [weights.force, () => stop(world, 'force')],
    [disk.appendWaits ? weights.append : 0, () => failAppend(world)],
    [weights.full, () => fill(world)],
    [weights.engine, () => loseEngine(world, upstreams.get('local')?.open.size ?? 0)],
    [life.kernel.isOpen ? weights.stale : 0, () => random.below(2) === 0 && late(world)],
  ];
}

/** Lets everything proceed in turn: the disk, the providers, and then time. */
function quiet(world: World): Choice[] {
  const { disk, clients, oracle, life, tools } = world;
  const ready = readyStreams(world);
  const cutOff = clients.find((client) =>
    client.followers.some((follower) => !follower.attached && !follower.done),
  );
  if (disk.waiting > 0) return [[1, () => disk.step()]];
  // What is durable becomes visible in the next turns. No time passes for it.
  if (life.kernel.backlog > 0 && life.kernel.stalled === null) return [[1, () => {}]];
  if (ready.length > 0) return [[1, () => ready[0]?.act()]];
  if (tools.open.size > 0) return [[1, () => tools.act()]];
  if (tools.waits && oracle.isRecovered) return [[1, () => tools.decide()]];
  if (cutOff !== undefined && oracle.isRecovered) return [[1, () => cutOff.followAgain()]];
  return [[1, () => fire(world)]];
}

function readyStreams({ upstreams }: World): Stream[] {
  return [...upstreams.values()].flatMap((upstream) =>
    [...upstream.open].filter((stream) => stream.ready),
  );
}

function die(world: World, how: 'crashed' | 'failed'): void {
  const done = world.random.onceIn(2);
  world.note(() => `${how}${done ? ', and what was being written is on the disk' : ''}`);
  world.stats.count(how === 'crashed' ? 'crashes' : 'lives that failed');
  world.disk.crash(done);
  world.life.end(how);
}

function stop(world: World, mode: 'drain' | 'force'): void {
  const { life, random, stats } = world;
  stats.count(mode === 'drain' ? 'stops' : 'forced stops');
  world.note(() => `stop, ${mode}`);
  const input = {
    type: 'stop_requested',
    mode,
    ...(random.onceIn(3) ? { timeout_ms: random.below(5000) } : {}),
  };
  life.runtime.lifecycle(input, 'test').catch(() => {});
}

function failAppend(world: World): void {
  const done = world.random.onceIn(2);
  world.note(() => `an append fails, and was ${done ? '' : 'not '}done`);
  if (world.disk.failAppend(done)) world.stats.count('appends that failed');
}

function fill(world: World): void {
  const { disk, stats } = world;
  disk.full = !disk.full;
  world.note(() => (disk.full ? 'the disk is full' : 'there is space on the disk'));
  if (disk.full) stats.count('full disks');
}

function loseEngine(world: World, open: number): void {
  if (open === 0) return;
  world.stats.count('engine losses');
  world.note(() => 'the engine dies');
  world.upstreams.get('local')?.die();
}

/** Repeats an earlier signal: it comes too late, or twice. */
function late(world: World): void {
  const { oracle, random, life, stats } = world;
  if (oracle.runs.size === 0) return;
  const run = random.pick([...oracle.runs.values()]);
  const event = random.pick(run.events);
  if (event.version === 1 || !isOutcome(event.type)) return;
  if (event.type === 'run.output_appended' && event.data.attempt === run.snapshot.context.attempt)
    return;
  stats.count('late and duplicate outcomes');
  world.note(() => `again: ${event.type} of ${run.alias}`);
  life.kernel
    .tryAppend(stream.run(run.id), { ...event.data, type: event.type } as never)
    .catch(() => {});
}

function isOutcome(type: string): boolean {
  return ![
    'run.recovered',
    'run.cancel_requested',
    'run.interrupt_requested',
    'run.deadline_passed',
    'run.interrupted',
  ].includes(type);
}

function pass({ life }: World, ms: number): void {
  life.clock.pass(ms);
}

function fire(world: World): void {
  const { life, random } = world;
  world.note(() => `time goes on from ${life.clock.now()} to ${life.clock.nextAt()}`);
  life.clock.fire(random);
}
