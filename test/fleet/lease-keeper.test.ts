import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { statePath } from '../../machines/step.ts';
import { SvcError } from '../../src/errors.ts';
import { FleetClock } from '../../src/fleet/clock.ts';
import { LeaseKeeper } from '../../src/fleet/lease-keeper.ts';
import type { Fleet, SharedStore } from '../../src/fleet/port.ts';
import { stream } from '../../src/kernel/stream.ts';
import { defaultLimits } from '../../src/limits.ts';
import { bootStarted } from '../helpers/boot-event.ts';
import { bootKernel, silent } from '../helpers/kernel.ts';
import { manualClock } from '../helpers/manual-clock.ts';
import { MemoryFleet } from '../helpers/store/memory-fleet.ts';
import { turns } from '../helpers/turns.ts';
import { codeOf } from '../kernel/store/samples.ts';

/** A lease is kept, late, lost or left, by the clock of the database. */

const LEASE_MS = defaultLimits.lease_ms;
const RENEW_MS = defaultLimits.lease_renew_ms;
const ADDRESSES = { http: null, grpc: null, socket: null };
const AWAY = new SvcError('store_stalled', 'The database does not answer.');

/** A fleet, and the boots that join it. Time is that of the database and of all boots. */
class World {
  readonly clock = manualClock(1_000_000);
  readonly log: MemoryFleet;
  private readonly lease_ms: number;
  /** How far the system clock of the machines is ahead of the database. */
  ahead_ms = 0;

  constructor(lease_ms = LEASE_MS) {
    this.lease_ms = lease_ms;
    this.log = new MemoryFleet(() => this.clock.now(), lease_ms);
  }

  private timeOf(): FleetClock {
    const own = this.clock;
    const wall = () => own.now() + this.ahead_ms;
    return new FleetClock({ lease_ms: this.lease_ms, own, wall });
  }

  async boot(node_id: string, boot_id: string, replaces: string | null = null) {
    const booted = await this.open(node_id, boot_id);
    await booted.keeper.join({ version: '1.0.0', capacity: 4, addresses: ADDRESSES }, replaces);
    booted.kernel.open(await booted.store.fleet.lastSeq());
    await booted.keeper.recordLossBefore();
    await turns(20);
    return booted;
  }

  async open(node_id: string, boot_id: string) {
    const store: SharedStore = this.log.store();
    await store.open();
    const { kernel } = await bootKernel({ store, clock: this.clock, boot_id, open: false });
    kernel
      .append([
        { stream: stream.daemon(boot_id), event: bootStarted(boot_id, 4, this.clock.now() + 1e6) },
      ])
      .catch(() => {});
    const heard = { lost: [] as SvcError[], drains: 0 };
    /** Null: the database answers. */
    const away: { error: SvcError | null } = { error: null };
    const fleet: Fleet = {
      ...store.fleet,
      renew: async (load) => {
        if (away.error !== null) throw away.error;
        return store.fleet.renew(load);
      },
    };
    const keeper = new LeaseKeeper({
      fleet,
      kernel,
      clock: this.clock,
      log: silent,
      time: this.timeOf(),
      limits: { lease_renew_ms: RENEW_MS },
      node: { node_id, boot_id, host: 'here' },
      load: () => ({ active: 2, capacity: 4 }),
      onLost: (error) => heard.lost.push(error),
      onDrain: () => {
        heard.drains += 1;
      },
    });
    const key = stream.lease(node_id, boot_id);
    const state = () => {
      const snapshot = kernel.snapshot(key);
      return snapshot === undefined ? null : statePath(snapshot);
    };
    return { store, kernel, keeper, heard, away, state, key };
  }

  async pass(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 500) {
      this.clock.advance(Math.min(500, ms - passed));
      await turns(20);
    }
  }

  async states(): Promise<string[]> {
    const store = this.log.store();
    await store.open();
    return (await store.fleet.nodes()).map(({ node_id, state }) => `${node_id} ${state}`);
  }
}

/** The types of the events of a lease. */
async function recorded(store: SharedStore, key: string): Promise<string[]> {
  return (await store.readStream(key, 1, 100)).map(({ type }) => type);
}

test('a node joins before its first commit, and its lease is renewed while it lives', async () => {
  const world = new World();
  const { store, state, key, heard, keeper } = await world.boot('a', 'boot_1');
  assert.is(state(), 'holding.renewed');
  await world.pass(5 * LEASE_MS);
  assert.equal(await world.states(), ['a active']);
  // A renewal is no event.
  assert.equal(await recorded(store, key), ['lease.requested', 'lease.granted']);
  assert.equal(heard, { lost: [], drains: 0 });
  const { trouble, checks } = keeper.health('now');
  assert.is(trouble, null);
  const [lease, clock] = [checks['node:lease']?.[0], checks['node:clock']?.[0]];
  assert.equal([lease?.observedValue, lease?.status, clock?.status], [1, 'pass', 'pass']);
  const [row] = await store.fleet.nodes();
  assert.is(row?.active, 2);
});

test('a lease shorter than the usual wait is renewed in time', async () => {
  const world = new World(RENEW_MS / 2);
  const a = await world.boot('a', 'boot_a');
  const b = await world.boot('b', 'boot_b');
  for (let second = 0; second < 10; second += 1) {
    await world.pass(1000);
    assert.equal(await world.states(), ['a active', 'b active']);
    assert.equal(await a.store.fleet.takeOver(), []);
  }
  assert.equal([a.heard.lost, b.heard.lost], [[], []]);
});

test('a lease that cannot be renewed is late, and goes on when the database is back', async () => {
  const world = new World();
  const { store, state, key, heard, keeper, away } = await world.boot('a', 'boot_1');
  away.error = AWAY;
  await world.pass(3 * LEASE_MS);
  assert.is(state(), 'holding.late');
  assert.is(keeper.health('now').trouble, AWAY.message);
  away.error = null;
  await world.pass(RENEW_MS);
  assert.is(state(), 'holding.renewed');
  assert.is(keeper.health('now').trouble, null);
  assert.equal(await recorded(store, key), [
    'lease.requested',
    'lease.granted',
    'lease.renewal_failed',
    'lease.renewed',
  ]);
  assert.equal(heard.lost, []);
});

test('a clock that was set wrong is known from the next renewal on, until it is right', async () => {
  const world = new World();
  const { keeper } = await world.boot('a', 'boot_1');
  const seen = async (ahead_ms: number) => {
    world.ahead_ms = ahead_ms;
    await world.pass(RENEW_MS);
    const { status, observedValue } = keeper.health('now').checks['node:clock']?.[0] ?? {};
    return [status, Math.round(Number(observedValue) / 10_000)];
  };
  assert.equal(await seen(600_000), ['warn', 60]);
  assert.equal(await seen(0), ['pass', 0]);
});

test('a node that was taken over learns it at its next renewal, once, and renews no more', async () => {
  const world = new World();
  const a = await world.boot('a', 'boot_a');
  const b = await world.boot('b', 'boot_b');
  a.away.error = AWAY;
  await world.pass(LEASE_MS + RENEW_MS);
  b.keeper.recordTakeOver(await b.store.fleet.takeOver());
  await turns(20);
  assert.equal(await recorded(b.store, a.key), [
    'lease.requested',
    'lease.granted',
    'lease.renewal_failed',
    'lease.lost',
  ]);
  a.away.error = null;
  await world.pass(5 * RENEW_MS);
  assert.equal(
    a.heard.lost.map(({ code }) => code),
    ['lease_lost'],
  );
  assert.equal(await world.states(), ['a lost', 'b active']);
  const event = { type: 'daemon.listening', addresses: ADDRESSES } as const;
  assert.is(
    await codeOf(a.kernel.append([{ stream: stream.daemon('boot_a'), event }])),
    'lease_lost',
  );
  await a.keeper.close();
  assert.equal(await world.states(), ['a lost', 'b active']);
});

test('the next boot of a node records the loss that no other node recorded', async () => {
  const world = new World();
  const before = await world.boot('a', 'boot_1');
  before.away.error = AWAY;
  const after = await world.boot('a', 'boot_2', 'boot_1');
  assert.is((await recorded(after.store, before.key)).at(-1), 'lease.lost');
  assert.is(after.keeper.health('now').checks['node:lease']?.[0]?.observedValue, 2);
  before.away.error = null;
  await world.pass(RENEW_MS);
  assert.is(before.heard.lost.length, 1);
  assert.is(after.heard.lost.length, 0);
  // It is recorded once: the third boot finds it ended.
  const third = await world.boot('a', 'boot_3', 'boot_2');
  const events = await recorded(third.store, before.key);
  assert.is(events.filter((type) => type === 'lease.lost').length, 1);
});

test('a start waits for the lease of a boot that died without a word', async () => {
  const world = new World();
  const { kernel } = await world.boot('a', 'boot_1');
  kernel.close();
  const dead = await world.open('a', 'boot_2');
  // The first boot still renews: it is alive, and the second one is refused.
  const refused = codeOf(
    dead.keeper.join({ version: '1.0.0', capacity: 4, addresses: ADDRESSES }, null),
  );
  await world.pass(2 * LEASE_MS);
  assert.is(await refused, 'daemon_already_running');

  const other = new World();
  const first = await other.boot('a', 'boot_1');
  first.away.error = AWAY;
  await other.pass(4000);
  const second = await other.open('a', 'boot_2');
  const joined = second.keeper.join({ version: '1.0.0', capacity: 4, addresses: ADDRESSES }, null);
  await other.pass(LEASE_MS);
  assert.is((await joined).previous_boot_id, 'boot_1');
});

test('a node that is asked to stop hears it once', async () => {
  const world = new World();
  const a = await world.boot('a', 'boot_a');
  const b = await world.boot('b', 'boot_b');
  assert.is(await b.store.fleet.drain('a'), true);
  await world.pass(3 * RENEW_MS);
  assert.equal([a.heard.drains, b.heard.drains], [1, 0]);
});

test('a stop records that the lease is left, and then releases it', async () => {
  const world = new World();
  const { store, kernel, keeper, key, state } = await world.boot('a', 'boot_1');
  const daemon = stream.daemon('boot_1');
  await kernel.append([
    {
      stream: daemon,
      event: {
        type: 'daemon.stop_requested',
        by: 'test',
        mode: 'force',
        drain_deadline_at: world.clock.now(),
        close_deadline_at: world.clock.now() + 5000,
      },
    },
  ]);
  await turns(20);
  assert.is(state(), 'leaving');
  await kernel.append([{ stream: daemon, event: { type: 'daemon.stopped' } }]);
  await turns(20);
  assert.is(state(), 'left');
  assert.equal(await world.states(), ['a active']);
  await keeper.close();
  assert.equal(await world.states(), ['a left']);
  await world.pass(2 * LEASE_MS);
  assert.equal(await recorded(store, key), [
    'lease.requested',
    'lease.granted',
    'lease.leave_requested',
    'lease.left',
  ]);
});

test('a daemon that fails leaves its fleet too', async () => {
  const world = new World();
  const { kernel, state } = await world.boot('a', 'boot_1');
  const error = { code: 'internal', message: 'It broke.', retryable: false };
  await kernel.append([
    { stream: stream.daemon('boot_1'), event: { type: 'daemon.failed', error } },
  ]);
  await turns(20);
  assert.is(state(), 'left');
});

test('a node answers for its runs only while no other one can have them', async () => {
  const world = new World();
  const a = await world.boot('a', 'boot_1');
  const b = await world.boot('b', 'boot_2');
  await world.pass(2 * LEASE_MS);
  a.away.error = AWAY;
  await world.pass(LEASE_MS - 2 * RENEW_MS);
  await a.keeper.confirm();
  await world.pass(2 * RENEW_MS);
  assert.is(await codeOf(a.keeper.confirm()), 'store_stalled');
  // It was away, and no node took it over.
  a.away.error = null;
  await a.keeper.confirm();
  a.away.error = AWAY;
  await world.pass(LEASE_MS + RENEW_MS);
  assert.is((await b.store.fleet.takeOver()).length, 1);
  a.away.error = null;
  assert.is(await codeOf(a.keeper.confirm()), 'lease_lost');
  assert.is(await codeOf(a.keeper.confirm()), 'lease_lost');
  assert.is(a.heard.lost.length, 1);
});

test.run();
