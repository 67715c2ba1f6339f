import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { RunEvent } from '../../../machines/run/context.ts';
import type { Kernel } from '../../../src/kernel/kernel.ts';
import { Approvals, WATCHED_MAX } from '../../../src/runtime/tools/approvals.ts';

/** What a person must decide, of many runs at one time. */

/** Approvals of so many runs, each with one call that waits. The last one is the newest. */
function waiting(count: number) {
  let hear = (_: unknown, __: object): void => {};
  const call = (at: number) => ({
    call: 1,
    id: 'call_1',
    name: 'files__write',
    server: 'files',
    tool: 'write',
    arguments: '{}',
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
    instances,
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

const idOf = (at: number) => `run_${String(at).padStart(4, '0')}.1`;

test('a watcher gets the newest 100, and the number of the others', async () => {
  const { approvals, decide } = waiting(WATCHED_MAX + 2);
  const abort = new AbortController();
  const watched = approvals.watch(abort.signal);
  const next = async () => {
    const { value } = await watched.next();
    const ids = value?.approvals.map(({ id }) => id) ?? [];
    return [ids.length, ids[0], ids.at(-1), value && 'older' in value ? value.older : 'absent'];
  };
  const last = idOf(WATCHED_MAX + 1);
  assert.equal(await next(), [WATCHED_MAX, idOf(2), last, 2]);
  decide(50);
  assert.equal(await next(), [WATCHED_MAX, idOf(1), last, 1]);
  decide(0);
  assert.equal(await next(), [WATCHED_MAX, idOf(1), last, 'absent'], 'exactly as many');
  decide(1);
  assert.equal(await next(), [WATCHED_MAX - 1, idOf(2), last, 'absent']);
  abort.abort();
  await watched.return();
});

test('the list for one question has all of them, the oldest first', () => {
  const { approvals } = waiting(WATCHED_MAX + 2);
  const ids = approvals.list().map(({ id }) => id);
  assert.equal([ids.length, ids[0], ids.at(-1)], [102, idOf(0), idOf(101)]);
});

test.run();
