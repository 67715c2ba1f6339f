import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { RunEvent } from '../../../machines/run/context.ts';
import type { Kernel } from '../../../src/kernel/kernel.ts';
import { Approvals, WATCHED_BYTES, WATCHED_MAX } from '../../../src/runtime/tools/approvals.ts';

/** What a person must decide, of many runs at one time. */

/** Approvals of so many runs, each with one call that waits. The last one is the newest. */
function waiting(count: number, args = '{}', last_boot = 'boot_2') {
  let hear = (_: unknown, __: object): void => {};
  const call = (at: number) => ({
    call: 1,
    id: 'call_1',
    name: 'files__write',
    server: 'files',
    tool: 'write',
    arguments: args,
    state: 'requested',
    approval: 'ask',
    requested_at: at,
    approve_until: null,
    ended_at: null,
  });
  const instances = new Map(
    Array.from({ length: count }, (_, at) => {
      const stream = `run_${String(at).padStart(4, '0')}`;
      return [stream, { stream, snapshot: { context: { calls: [call(at)] } } }] as const;
    }),
  );
  const kernel = {
    boot_id: 'boot_2',
    instances,
    instance: () => ({ recent: [{ boot_id: last_boot }] }),
    tryAppend: () => assert.unreachable(),
    tail: (stream: string) => instances.get(stream)?.snapshot,
    subscribe: (_: object, listener: typeof hear) => (hear = listener),
  };
  const servers = { target: () => null, changes: async () => null, allowAlways: async () => {} };
  const approvals = new Approvals(kernel as unknown as Kernel, servers as never);
  const decide = (at: number) => {
    const stream = `run_${String(at).padStart(4, '0')}`;
    const context = instances.get(stream)?.snapshot.context;
    instances.delete(stream);
    hear({ type: 'run.tool_allowed' } as RunEvent, { context });
  };
  return { approvals, decide };
}

test('a run of an earlier boot is decided when it is recovered, and not before', async () => {
  const { approvals } = waiting(1, '{}', 'boot_1');
  const failure = await approvals
    .decide(idOf(0), { decision: 'allow' }, 'me')
    .catch(({ code, retryable }) => [code, retryable]);
  assert.equal(failure, ['not_ready', true]);
});

const idOf = (at: number) => `run_${String(at).padStart(4, '0')}.1`;

/** The next message, with ids for calls. */
const reader = ({ approvals }: ReturnType<typeof waiting>) => {
  const abort = new AbortController();
  const watched = approvals.watch(abort.signal);
  const read = async () => (await watched.next()).value ?? { approvals: [] };
  const next = async () => {
    const { approvals: calls, ...rest } = await read();
    return { ...rest, ids: calls.map(({ id }) => id) };
  };
  const leave = async () => {
    abort.abort();
    await watched.return();
  };
  return { read, next, leave };
};

test('a watcher gets the newest 100, then what changes of them, and the number of the others', async () => {
  const all = waiting(WATCHED_MAX + 2);
  const { decide } = all;
  const { next, leave } = reader(all);
  const ids = Array.from({ length: WATCHED_MAX }, (_, at) => idOf(at + 2));
  assert.equal(await next(), { ids, older: 2 });
  decide(50);
  assert.equal(await next(), { ids: [idOf(1)], removed: [idOf(50)], older: 1 }, 'the next older');
  decide(0);
  assert.equal(await next(), { ids: [] }, 'exactly as many, so none is older');
  decide(1);
  assert.equal(await next(), { ids: [], removed: [idOf(1)] });
  await leave();
});

test('of 5,000 calls that wait, each watcher hears of a decision in less than 2 kB', async () => {
  const all = waiting(5000);
  const watchers = [reader(all), reader(all)];
  for (const { next } of watchers) assert.is((await next()).older, 4900);
  all.decide(4950);
  all.decide(4951);
  for (const { read, leave } of watchers) {
    const message = await read();
    assert.equal(message.removed, [idOf(4950), idOf(4951)], 'two changes are one message');
    assert.is(message.older, 4898);
    assert.ok(JSON.stringify(message).length < 2000, `${JSON.stringify(message).length} bytes`);
    await leave();
  }
});

test('long arguments of calls that wait leave out older calls, and never the newest', async () => {
  const all = waiting(4, 'x'.repeat(WATCHED_BYTES / 2));
  const { next, leave } = reader(all);
  assert.equal(await next(), { ids: [idOf(2), idOf(3)], older: 2 });
  all.decide(2);
  assert.equal(await next(), { ids: [idOf(1)], removed: [idOf(2)], older: 1 });
  await leave();
  const large = reader(waiting(2, 'x'.repeat(WATCHED_BYTES + 1)));
  assert.equal(await large.next(), { ids: [idOf(1)], older: 1 });
  await large.leave();
});

test('the list for one question has all of them, the oldest first', () => {
  const { approvals } = waiting(WATCHED_MAX + 2);
  const ids = approvals.list().map(({ id }) => id);
  assert.equal([ids.length, ids[0], ids.at(-1)], [102, idOf(0), idOf(101)]);
});

test.run();
