import type { Test } from 'uvu';
import * as assert from 'uvu/assert';
import type { FleetChange } from '../../../src/fleet/port.ts';
import {
  ALL,
  accept,
  type FleetSubject,
  type FleetTest,
  facts,
  fleetTest,
  ids,
  LEASE_MS,
  LOAD,
  next,
} from './fleet-nodes.ts';
import { testFleetRuns } from './fleet-runs-conformance.ts';
import { codeOf, event, run } from './samples.ts';

/** What every fleet promises. */
export function fleetConformance(test: Test, make: () => Promise<FleetSubject>): void {
  const fleet = fleetTest(test, make);
  testLeases(fleet);
  testFences(fleet);
  testLog(fleet);
  testFleetRuns(fleet);
  testNodes(fleet);
}

function testLeases(fleet: FleetTest): void {
  fleet('each join raises the epoch of its node, and names the boot before', async (nodes) => {
    const { fleet } = await nodes.open();
    const first = await fleet.join(facts('a', { boot_id: 'boot_1' }), null);
    assert.equal(first, { epoch: first.epoch, lease_ms: LEASE_MS, previous_boot_id: null });
    const second = await fleet.join(facts('a', { boot_id: 'boot_2' }), 'boot_1');
    assert.ok(second.epoch > first.epoch);
    assert.is(second.previous_boot_id, 'boot_1');
    assert.is((await fleet.join(facts('b'), null)).previous_boot_id, null);
  });

  fleet('a node id is refused while another boot has its lease', async (nodes) => {
    await nodes.join('a', { boot_id: 'boot_1' });
    await nodes.pass(4000);
    const { fleet } = await nodes.open();
    const refused = await fleet.join(facts('a', { boot_id: 'boot_2' }), null).catch((e) => e);
    assert.is(refused.code, 'daemon_already_running');
    assert.ok(refused.details.retry_after_ms > 0 && refused.details.retry_after_ms <= 6000);
    assert.is(
      await codeOf(fleet.join(facts('a', { boot_id: 'boot_2' }), 'boot_0')),
      'daemon_already_running',
    );
    await nodes.pass(6001);
    await fleet.join(facts('a', { boot_id: 'boot_2' }), null);
  });

  fleet('a node says how its clock is, and all nodes have one time', async (nodes) => {
    const a = await nodes.join('a');
    const b = await nodes.join('b', { clock: { clock_ms: 5, takes_runs: true } });
    const clocks = async () => (await a.fleet.nodes()).map(({ clock }) => clock);
    assert.equal(await clocks(), [null, { clock_ms: 5, takes_runs: true }]);
    await b.fleet.renew({ ...LOAD, clock: { clock_ms: -9000, takes_runs: false } });
    await a.fleet.renew(LOAD);
    assert.equal(await clocks(), [null, { clock_ms: -9000, takes_runs: false }]);
    const [row] = await a.fleet.nodes();
    assert.equal(row?.addresses, facts('a').addresses);
    const times = [await a.fleet.time(), await b.fleet.time()];
    assert.ok(Math.abs((times[1] ?? 0) - (times[0] ?? 0)) < 60_000, String(times));
  });

  fleet('a renewed lease lasts from its renewal on', async (nodes) => {
    const a = await nodes.join('a');
    const b = await nodes.join('b');
    await nodes.pass(8000);
    assert.is(await a.fleet.renew(LOAD), 'held');
    assert.is(await b.fleet.renew(LOAD), 'held');
    await nodes.pass(8000);
    assert.is(await b.fleet.renew(LOAD), 'held');
    assert.equal(await b.fleet.takeOver(), []);
    await nodes.pass(2001);
    assert.equal(
      (await b.fleet.takeOver()).map(({ node_id, boot_id }) => [node_id, boot_id]),
      [['a', 'boot_a']],
    );
    assert.is(await a.fleet.renew(LOAD), 'lost');
  });

  fleet('a node is taken over once', async (nodes) => {
    await nodes.join('dead');
    await nodes.pass(LEASE_MS + 1);
    const stores = [await nodes.join('b'), await nodes.join('c'), await nodes.join('d')];
    const taken = await Promise.all(stores.map((store) => store.fleet.takeOver()));
    assert.equal(
      taken.flat().map(({ node_id }) => node_id),
      ['dead'],
    );
    assert.equal(await stores[0]?.fleet.takeOver(), []);
  });

  fleet('a late lease goes on if no node has taken it over', async (nodes) => {
    const a = await nodes.join('a');
    await nodes.pass(LEASE_MS + 5000);
    await a.append(accept('a', run('run_1')));
    await a.fleet.release(['run_1']);
    await nodes.pass(LEASE_MS + 5000);
    assert.equal(ids(await a.fleet.claim(ALL)), ['run_1']);
    await nodes.pass(LEASE_MS + 5000);
    assert.is(await a.fleet.renew(LOAD), 'held');
  });

  fleet('all leases end while the database is away, and none is taken over', async (nodes) => {
    const a = await nodes.join('a');
    const b = await nodes.join('b');
    await nodes.pass(LEASE_MS + 60_000);
    assert.is(await a.fleet.renew(LOAD), 'held');
    assert.equal(await a.fleet.takeOver(), []);
    assert.is(await b.fleet.renew(LOAD), 'held');
    await nodes.pass(LEASE_MS - 1000);
    assert.is(await a.fleet.renew(LOAD), 'held');
    assert.equal(await a.fleet.takeOver(), []);
    await nodes.pass(2000);
    assert.is((await a.fleet.takeOver()).length, 1);
  });
}

function testFences(fleet: FleetTest): void {
  fleet('only a node that has joined appends', async (nodes) => {
    const store = await nodes.open();
    assert.is(await codeOf(store.append(accept('a', run('run_1')))), 'lease_lost');
    assert.is(await store.fleet.lastSeq(), 0);
  });

  fleet('a node that was taken over can write nothing', async (nodes) => {
    const a = await nodes.join('a');
    await a.append(accept('a', run('run_1')));
    await nodes.pass(LEASE_MS + 1);
    const b = await nodes.join('b');
    await b.fleet.takeOver();
    for (const commit of [
      accept('a', run('run_2')),
      next('a', 2, run('run_1')),
      { events: [event(1, 'daemon:boot_a', 1)], runs: [] },
    ])
      assert.is(await codeOf(a.append(commit)), 'lease_lost');
    assert.is(await codeOf(a.fleet.claim(ALL)), 'lease_lost');
    assert.is(await codeOf(a.fleet.claimRun('run_1')), 'lease_lost');
    assert.is(await codeOf(a.fleet.release(['run_1'])), 'lease_lost');
    assert.is(await codeOf(a.fleet.reserveKey('key', 'run_3')), 'lease_lost');
    assert.is(await codeOf(a.fleet.takeOver()), 'lease_lost');
    assert.is(await b.fleet.lastSeq(), 1);
    assert.equal(await b.readAll(2, 10), []);
  });

  fleet('a later boot of the same node fences the earlier one', async (nodes) => {
    const before = await nodes.join('a', { boot_id: 'boot_1' });
    await before.append(accept('a', run('run_1')));
    const after = await nodes.open();
    await after.fleet.join(facts('a', { boot_id: 'boot_2' }), 'boot_1');
    assert.is(await codeOf(before.append(next('a', 2, run('run_1')))), 'lease_lost');
    assert.is(await before.fleet.renew(LOAD), 'lost');
    assert.equal(await after.unfinishedRuns(), ['run_1']);
    await after.append(next('a', 2, run('run_1', { state: 'running' })));
  });

  fleet('only the owner of a run appends to it', async (nodes) => {
    const a = await nodes.join('a');
    const b = await nodes.join('b');
    await a.append(accept('a', run('run_1')));
    assert.is(await codeOf(b.append(next('b', 2, run('run_1')))), 'lease_lost');
    await a.fleet.release(['run_1']);
    assert.is(await codeOf(b.append(next('b', 2, run('run_1')))), 'lease_lost');
    assert.is(await codeOf(a.append(next('a', 2, run('run_1')))), 'lease_lost');
    assert.is(await b.fleet.lastSeq(), 1);
    assert.equal(ids(await b.fleet.claim(ALL)), ['run_1']);
    await b.append(next('b', 2, run('run_1', { state: 'running' })));
    assert.is(await codeOf(a.append(next('a', 3, run('run_1')))), 'lease_lost');
  });

  fleet('a node that left can write nothing, and its runs are free', async (nodes) => {
    const a = await nodes.join('a');
    const b = await nodes.join('b');
    await a.append(accept('a', run('run_1'), run('run_2')));
    await a.append(next('a', 2, run('run_2', { state: 'suspended' })));
    await a.fleet.leave();
    await a.fleet.leave();
    assert.is(await codeOf(a.append(accept('a', run('run_3')))), 'lease_lost');
    const claimed = await b.fleet.claim(ALL);
    assert.equal(
      claimed.map(({ run_id, waits }) => [run_id, waits]),
      [
        ['run_1', true],
        ['run_2', false],
      ],
    );
  });
}

function testLog(fleet: FleetTest): void {
  fleet('the log assigns the positions, whatever its writers think', async (nodes) => {
    const a = await nodes.join('a');
    const b = await nodes.join('b');
    await a.append(accept('a', run('run_1')));
    const commit = accept('b', run('run_2', { seq: 1 }), run('run_3', { seq: 2 }));
    assert.is((await b.append(commit)).first_seq, 2);
    const done = run('run_3', {
      state: 'completed',
      finished: true,
      seq: 1,
      record: { id: 'run_3', seq: 1 },
    });
    assert.is((await b.append({ ...next('b', 2, done), runs: [done] })).first_seq, 4);
    assert.is((await a.append(next('a', 2, run('run_1')))).first_seq, 5);
    assert.equal(
      (await a.readAll(1, 10)).map(({ seq, stream, version }) => [seq, stream, version]),
      [
        [1, 'run_1', 1],
        [2, 'run_2', 1],
        [3, 'run_3', 1],
        [4, 'run_3', 2],
        [5, 'run_1', 2],
      ],
    );
    const row = await a.getRun('run_3');
    assert.is(row?.seq, 4);
    assert.is(row?.record?.seq, 4);
    assert.is((await a.getRun('run_2'))?.seq, 2);
    const bytes = await a.readRecord('run_3');
    assert.is(JSON.parse(Buffer.from(bytes ?? []).toString()).seq, 4);
    assert.is(await b.fleet.lastSeq(), 5);
  });

  fleet('appends of many nodes at once leave no hole and keep each order', async (nodes) => {
    const names = ['a', 'b', 'c', 'd'];
    const stores = await Promise.all(names.map((name) => nodes.join(name)));
    await Promise.all(
      stores.map(async (store, index) => {
        const name = names[index] as string;
        for (let version = 1; version <= 10; version += 1)
          await store.append({
            events: [event(1, `daemon:boot_${name}`, version), event(2, `x:${name}`, version)],
            runs: [],
          });
      }),
    );
    const all = await stores[0]?.readAll(1, 1000);
    assert.equal(
      all?.map(({ seq }) => seq),
      Array.from({ length: 80 }, (_, index) => index + 1),
    );
    for (const name of names)
      assert.equal(
        all?.filter(({ stream }) => stream === `x:${name}`).map(({ version }) => version),
        Array.from({ length: 10 }, (_, index) => index + 1),
      );
  });

  fleet('a node hears of the events of another one', async (nodes) => {
    const a = await nodes.join('a');
    const b = await nodes.join('b');
    const heard = Promise.withResolvers<FleetChange>();
    const listening = new AbortController();
    b.fleet.onChange((change) => {
      // The first change of a listener names no stream, and a commit may have come before it.
      if (change.streams === 'all') void a.append(next('a', 2, run('run_1')));
      else if (change.streams.includes('run_1')) heard.resolve(change);
    }, listening.signal);
    await a.append(accept('a', run('run_1')));
    assert.ok((await heard.promise).last_seq >= 1);
    listening.abort();
  });
}

function testNodes(fleet: FleetTest): void {
  fleet('the nodes are listed, by a node or not', async (nodes) => {
    const b = await nodes.join('b', { version: '2.0.0', host: 'there', capacity: 8 });
    await nodes.join('a');
    await nodes.pass(4000);
    assert.is(await b.fleet.renew({ active: 3, capacity: 6 }), 'held');
    const { fleet } = await nodes.open();
    const rows = await fleet.nodes();
    assert.equal(
      rows.map(({ node_id, state, version, host, active, capacity }) => [
        node_id,
        state,
        version,
        host,
        active,
        capacity,
      ]),
      [
        ['a', 'active', '1.0.0', 'here', 0, 4],
        ['b', 'active', '2.0.0', 'there', 3, 6],
      ],
    );
    const [a, other] = rows;
    assert.ok((a?.lease_ms_left ?? 0) <= 6000);
    assert.ok((other?.lease_ms_left ?? 0) > (a?.lease_ms_left ?? 0));
    assert.ok((other?.since ?? 0) <= (a?.since ?? 0));
    assert.equal(a?.addresses, { http: null, grpc: null, socket: null });
  });

  fleet('a node says how it is', async (nodes) => {
    const a = await nodes.join('a');
    const b = await nodes.join('b');
    const states = async () => (await a.fleet.nodes()).map(({ state }) => state);
    assert.equal(await states(), ['active', 'active']);
    assert.is(await a.fleet.drain('b'), true);
    assert.is(await a.fleet.drain('unknown'), false);
    assert.equal(await states(), ['active', 'draining']);
    assert.is(await b.fleet.renew(LOAD), 'drain');
    assert.is(await a.fleet.renew(LOAD), 'held');
    await nodes.pass(6000);
    assert.is(await a.fleet.renew(LOAD), 'held');
    await nodes.pass(6000);
    assert.equal(await states(), ['active', 'late']);
    await a.fleet.takeOver();
    assert.equal(await states(), ['active', 'lost']);
    assert.is(await a.fleet.drain('b'), false);
    await b.fleet.join(facts('b', { boot_id: 'boot_2' }), null);
    assert.equal(await states(), ['active', 'active']);
    assert.is(await b.fleet.renew(LOAD), 'held');
    await b.fleet.leave();
    assert.equal(await states(), ['active', 'left']);
  });

  fleet('a closed store answers nothing', async (nodes) => {
    const a = await nodes.join('a');
    await a.close();
    assert.is(await codeOf(a.fleet.nodes()), 'not_ready');
    assert.is(await codeOf(a.fleet.renew(LOAD)), 'not_ready');
    assert.is(await codeOf(a.append(accept('a', run('run_1')))), 'not_ready');
  });
}
