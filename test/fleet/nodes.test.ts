import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Nodes, oldestBoot } from '../../src/fleet/nodes.ts';
import { defaultLimits } from '../../src/limits.ts';
import { Verification } from '../../src/observability/health/verification.ts';
import { OneDaemon } from '../../src/runtime/placement.ts';
import { silent } from '../helpers/kernel.ts';
import { manualClock } from '../helpers/manual-clock.ts';
import { MemoryFleet } from '../helpers/store/memory-fleet.ts';
import { turns } from '../helpers/turns.ts';
import { facts, LOAD } from '../kernel/store/fleet-nodes.ts';
import { codeOf } from '../kernel/store/samples.ts';

/** The nodes as users see them. */

const START = Date.parse('2026-11-23T04:00:00.000Z');

async function twoNodes() {
  const time = { now: START };
  const log = new MemoryFleet(() => time.now);
  const join = async (name: string) => {
    const store = log.store();
    await store.open();
    await store.fleet.join(facts(name, { version: '1.2.3', host: 'rack', capacity: 4 }), null);
    return store;
  };
  const [a, b] = [await join('a'), await join('b')];
  // The clock of this machine is an hour ahead of the database.
  return { time, a, b, nodes: new Nodes(a.fleet, () => time.now + 3_600_000) };
}

test('a node is listed with its runs, its places and the end of its lease by the clock here', async () => {
  const { time, a, nodes } = await twoNodes();
  time.now += 4000;
  await a.fleet.renew({ active: 3, capacity: 4, clock: { clock_ms: -7, takes_runs: true } });
  const [first, second] = (await nodes.list()).nodes;
  assert.equal(first, {
    id: 'a',
    state: 'active',
    since: '2026-11-23T04:00:00.000Z',
    capacity: 4,
    runs: 3,
    version: '1.2.3',
    host: 'rack',
    lease_until: '2026-11-23T05:00:14.000Z',
    clock_ms: -7,
    takes_runs: true,
  });
  assert.is(second?.lease_until, '2026-11-23T05:00:10.000Z');
  assert.equal([second?.clock_ms, second?.takes_runs], [null, true], 'not known');
});

test('a node without a lease has no end of it', async () => {
  const { b, nodes } = await twoNodes();
  await b.fleet.leave();
  const [, left] = (await nodes.list()).nodes;
  assert.equal([left?.state, left?.lease_until], ['left', null]);
});

test('a lease has an end until its last millisecond', async () => {
  const { time, nodes } = await twoNodes();
  const end = async () => (await nodes.list()).nodes[1]?.lease_until;
  time.now += 9999;
  assert.is(await end(), '2026-11-23T05:00:10.000Z');
  time.now += 1;
  assert.is(await end(), null);
});

test('the oldest boot has a lease now; of two that are as old the first by name counts', () => {
  const row = (node_id: string, since: number, lease_ms_left: number) => ({
    node_id,
    boot_id: `boot of ${node_id}`,
    since,
    lease_ms_left,
  });
  const oldest = (...rows: ReturnType<typeof row>[]) => oldestBoot(rows as never);
  assert.is(oldest(), undefined);
  assert.is(oldest(row('a', 1, 0), row('b', 9, 1), row('c', 8, 1)), 'boot of c');
  assert.is(oldest(row('b', 5, 1), row('a', 5, 1), row('c', 5, 1)), 'boot of a');
  assert.is(oldest(row('a', 7, 1), row('b', 2, 1)), 'boot of b');
});

test('one node checks the log, and another one does when that one has left', async () => {
  const clock = manualClock(START);
  const log = new MemoryFleet(() => clock.now(), 1e12);
  const checked: string[] = [];
  const begin = async (name: string) => {
    const store = log.store();
    await store.open();
    await store.fleet.join(facts(name), null);
    const report = { seq: 0, at: null, complete: true, problems: [], damaged: 0 };
    const check = new Verification({
      clock,
      limits: defaultLimits,
      log: silent,
      size: () => 0,
      isMine: async () => oldestBoot(await store.fleet.nodes()) === `boot_${name}`,
      store: {
        verified: async () => report,
        verifyPart: async () => {
          checked.push(name);
          return { done: true, report };
        },
      },
    });
    await check.start();
    return store;
  };
  const b = await begin('b');
  clock.advance(1);
  await begin('a');
  clock.advance(defaultLimits.verify_pause_ms);
  await turns(10);
  assert.equal(checked, ['b'], 'its lease is the oldest');
  await b.fleet.leave();
  clock.advance(defaultLimits.verify_every_ms);
  await turns(10);
  assert.equal(checked, ['b', 'a']);
});

test('a node that is asked to stop hears it, and an unknown one is an error', async () => {
  const { b, nodes } = await twoNodes();
  assert.is((await nodes.drain('b')).state, 'draining');
  assert.is(await b.fleet.renew(LOAD), 'drain');
  assert.is(await codeOf(nodes.drain('c')), 'node_unknown');
  await b.fleet.leave();
  assert.is(await codeOf(nodes.drain('b')), 'node_unknown');
});

test('a daemon that is not in a fleet lists no node', async () => {
  const alone = new OneDaemon({ durableSeq: 0, subscribe() {} }).nodes;
  assert.equal(await alone.list(), { nodes: [] });
  assert.is(await codeOf(alone.drain('a')), 'node_unknown');
});

test.run();
