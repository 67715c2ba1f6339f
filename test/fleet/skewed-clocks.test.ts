import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type FleetNode, FleetOfNodes, type Machine, settle } from './fleet-nodes.ts';

/** The clocks of the machines of a fleet differ. Times here are those of the database. */
const test = suite('skewed clocks in a fleet');
let fleet: FleetOfNodes;
test.before.each(() => {
  fleet = new FleetOfNodes();
});
test.after.each(() => fleet.close());

const HOUR = 3_600_000;
const SKEWS = [HOUR, -HOUR, 24 * HOUR, -24 * HOUR];
const TIMEOUT_MS = 30_000;

/** It began with a wrong clock, and a time server has set it right. */
const began = (ms: number): Machine => ({ began_ms: ms, wall_ms: 0 });
const wrong = (ms: number): Machine => ({ began_ms: ms, wall_ms: ms });
const boot = (id: string, places: number, machine: Machine) =>
  fleet.boot(id, places, {}, undefined, undefined, machine);
const ask = (node: FleetNode, prompt: string) =>
  node.runtime.runs.start({ prompt, timeout_ms: TIMEOUT_MS, recovery: 'restart' }, 'one');
/** Lets time pass until a deadline has passed: its work may still stop. It answers the time. */
const ended = async (node: FleetNode, id: string): Promise<number> => {
  const from = fleet.clock.now();
  while (!['cancelling', 'timed_out'].includes((await node.runtime.runs.get(id)).state)) {
    if (fleet.clock.now() - from > 2 * TIMEOUT_MS)
      throw new Error((await node.runtime.runs.get(id)).state);
    await fleet.pass(1000);
  }
  return fleet.clock.now() - from;
};
/** Within two steps of a second. The round trip by which a clock is set takes real milliseconds. */
const near = (ms: number, expected: number, what: string) =>
  assert.ok(Math.abs(ms - expected) < 3000, `${what}: ${ms} ms`);

for (const skew of SKEWS) {
  const at = `${skew / HOUR} h`;

  test(`a run that a node with a clock of ${at} accepts and runs ends in time`, async () => {
    const a = await boot('a', 1, began(skew));
    const { id } = await ask(a, 'first');
    await settle();
    assert.equal(a.provider.asked, ['first']);
    near(await ended(a, id), TIMEOUT_MS, at);
  });

  test(`a run that waits on no node ends in time, accepted at ${at}`, async () => {
    const a = await boot('a', 1, began(skew));
    await ask(a, 'busy');
    const { id } = await ask(a, 'waits');
    await settle();
    assert.is(a.kernel.instance(id as 'run_'), undefined, 'in no kernel');
    const b = await boot('b', 0, wrong(0));
    near(await ended(b, id), TIMEOUT_MS, at);
  });

  for (const [from, to] of [
    [skew, 0],
    [0, skew],
    [skew, -skew],
  ] as const)
    test(`a run that goes from ${from / HOUR} h to ${to / HOUR} h keeps its time`, async () => {
      const a = await boot('a', 1, began(from));
      const b = await boot('b', 1, began(to));
      const { id } = await ask(a, 'first');
      await settle();
      await fleet.pass(10_000);
      await fleet.kill(a);
      const dead_at = fleet.clock.now();
      while (!b.provider.asked.includes('first')) await fleet.pass(1000);
      // The time without a node does not count.
      const down_ms = fleet.clock.now() - dead_at;
      assert.ok(down_ms <= 12_000, `${down_ms} ms`);
      near(await ended(b, id), TIMEOUT_MS - 10_000, at);
    });

  test(`a node with a clock of ${at} takes no runs, says so, and takes them when it is right`, async () => {
    const machine = wrong(skew);
    const a = await boot('a', 1, machine);
    const { id } = await ask(a, 'first');
    const late = await ask(a, 'second');
    await settle();
    await fleet.pass(1000);
    assert.equal(a.provider.asked, []);
    const { nodes } = await a.runtime.nodes.list();
    assert.equal([nodes[0]?.clock_ms, nodes[0]?.takes_runs], [skew, false]);
    assert.match(a.time?.trouble ?? '', skew > 0 ? / s ahead of that/ : / s behind that/);
    assert.match(
      (await a.runtime.history.whyRun(late.id)).explanation.at(-1) ?? '',
      / it waits for a node whose clock is right: the clock of a is wrong$/,
    );
    const b = await boot('b', 1, wrong(0));
    await fleet.pass(1000);
    assert.equal(b.provider.asked, ['first']);
    assert.match(
      (await a.runtime.history.whyRun(late.id)).explanation.at(-1) ?? '',
      / it waits for a node with .* and a free place$/,
    );
    machine.wall_ms = 0;
    await fleet.pass(2000);
    assert.equal(a.provider.asked, ['second']);
    near(await ended(b, id), TIMEOUT_MS - 4000, at);
    near(await ended(b, late.id), 0, at);
  });

  test(`a clock that is set to ${at} while a run waits changes no deadline`, async () => {
    const machine = began(0);
    const a = await boot('a', 1, machine);
    const b = await boot('b', 1, wrong(0));
    await ask(a, 'one');
    await ask(a, 'two');
    const { id } = await ask(a, 'waits');
    machine.wall_ms = skew;
    near(await ended(b, id), TIMEOUT_MS, at);
    assert.equal(a.time?.report, { clock_ms: skew, takes_runs: false });
  });
}

test('a small difference is followed at once', async () => {
  const machine = began(0);
  const a = await boot('a', 1, machine);
  await ask(a, 'first');
  machine.began_ms = 2000;
  machine.wall_ms = 2000;
  await fleet.pass(1000);
  assert.is(a.kernel.clock.now(), fleet.clock.now());
  assert.is(a.time?.trouble, null);
});

test('after sleep a node with work has the time at once, and no deadline is nearer', async () => {
  const machine = began(0);
  const a = await boot('a', 1, machine);
  a.time?.resyncWhile(() => false);
  const jumps: number[] = [];
  a.kernel.jumps.subscribe((ms) => jumps.push(ms));
  const { id } = await ask(a, 'first');
  await fleet.pass(10_000);
  // The monotonic clock of the machine does not move, and its wall clock does not.
  fleet.clock.jump(8 * HOUR);
  machine.began_ms = -8 * HOUR;
  await fleet.pass(1000);
  assert.is(a.kernel.clock.now(), fleet.clock.now());
  assert.equal([jumps, a.time?.trouble], [[8 * HOUR], null]);
  assert.equal([a.time?.report?.takes_runs], [true]);
  near(await ended(a, id), TIMEOUT_MS - 11_000, 'the run that works');
});

test('a clock of the database that is set is followed when no run has deadlines', async () => {
  const machine = began(0);
  const a = await boot('a', 1, machine);
  let isIdle = false;
  a.time?.resyncWhile(() => isIdle);
  machine.began_ms = HOUR;
  await fleet.pass(1000);
  assert.is(fleet.clock.now() - a.kernel.clock.now(), -HOUR);
  assert.match(a.time?.trouble ?? '', /The clock of the database was set/);
  isIdle = true;
  await fleet.pass(1000);
  assert.is(a.kernel.clock.now(), fleet.clock.now());
  assert.is(a.time?.trouble, null);
});

test.run();
