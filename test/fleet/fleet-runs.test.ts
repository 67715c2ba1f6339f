import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../src/errors.ts';
import { readLastBoot } from '../../src/runtime/runs/recover.ts';
import { eventData } from '../../src/transport/stream/event-forms.ts';
import { eventsOf } from '../helpers/events.ts';
import { holder } from '../operations/principals.ts';
import { type FleetNode, FleetOfNodes, settle } from './fleet-nodes.ts';

const test = suite('the runs of a fleet');
let fleet: FleetOfNodes;
test.before.each(() => {
  fleet = new FleetOfNodes();
});
test.after.each(() => fleet.close());

const codeOf = (work: Promise<unknown>) =>
  work.then(() => null).catch((error: SvcError) => error.code);
const stateOf = async ({ runtime }: FleetNode, id: string) => (await runtime.runs.get(id)).state;

test('a run that cannot start where it was accepted runs on another node', async () => {
  const a = await fleet.boot('a', 1);
  const b = await fleet.boot('b', 1);
  const first = await a.runtime.runs.start({ prompt: 'first' }, 'one');
  const second = await a.runtime.runs.start({ prompt: 'second' }, 'one');
  await settle();
  assert.equal([a.provider.asked, b.provider.asked], [['first'], ['second']]);
  assert.is(await stateOf(a, second.id), 'streaming');
  await b.provider.one();
  const shown = await a.runtime.runs.get(second.id);
  assert.equal([shown.state, shown.output], ['completed', 'from b']);
  await a.provider.one();
  assert.is(await stateOf(b, first.id), 'completed');
  assert.equal([a.scheduler.unsettled, b.scheduler.unsettled], [0, 0]);
  assert.is(a.kernel.tail(a.daemon)?.context.unsettled, 0);
  assert.is(b.kernel.tail(b.daemon)?.context.unsettled, 0);
});

test('a node shows no less of its run than another one has read', async () => {
  const a = await fleet.boot('a', 1);
  const b = await fleet.boot('b', 1);
  const { id } = await a.runtime.runs.start({ prompt: 'first' }, 'one');
  await settle();
  const { append } = a.store;
  const { promise: answered, resolve: answer } = Promise.withResolvers<void>();
  a.store.append = async (commit) => {
    const appended = await append(commit);
    await answered;
    return appended;
  };
  // The end is in the log, and its node does not know it.
  await a.provider.one();
  assert.is(a.kernel.snapshot(id as 'run_')?.status, 'active');
  assert.is(await stateOf(b, id), 'completed');
  assert.is(await stateOf(a, id), 'completed');
  answer();
  await settle();
  assert.is(await stateOf(a, id), 'completed');
});

test('a node knows the last position of the log, wherever it was written', async () => {
  const a = await fleet.boot('a', 1);
  const b = await fleet.boot('b', 1);
  const { id } = await a.runtime.runs.start({ prompt: 'first' }, 'one');
  await settle();
  const { seq } = await b.runtime.runs.get(id);
  assert.ok(b.kernel.durableSeq < seq);
  assert.ok((await b.runtime.runs.lastSeq()) >= seq);
  assert.is(await b.runtime.runs.lastSeq(), await a.runtime.runs.lastSeq());
});

test('a run that no node can start waits for the next free place of any', async () => {
  const a = await fleet.boot('a', 1);
  const b = await fleet.boot('b', 1);
  const runs = [];
  for (const prompt of ['1', '2', '3', '4'])
    runs.push(await a.runtime.runs.start({ prompt }, 'one'));
  await settle();
  const waiting = await b.runtime.runs.get(runs[3]?.id ?? '');
  assert.equal([waiting.state, waiting.queue_position], ['queued', 2]);
  assert.equal(a.kernel.instance(runs[3]?.id as 'run_'), undefined, 'in no kernel');
  await b.provider.one();
  assert.equal(b.provider.asked, ['2', '3']);
  await a.provider.one();
  assert.equal(a.provider.asked, ['1', '4']);
});

test('clients take turns across the fleet', async () => {
  const a = await fleet.boot('a', 1);
  const b = await fleet.boot('b', 1);
  for (const prompt of ['m1', 'm2', 'm3', 'm4', 'm5', 'm6'])
    await a.runtime.runs.start({ prompt, client: 'many' }, 'socket');
  await settle();
  await b.runtime.runs.start({ prompt: 's1', client: 'single' }, 'socket');
  await settle();
  await a.provider.one();
  assert.equal([...a.provider.asked, ...b.provider.asked], ['m1', 's1', 'm2']);
});

test('a newcomer does not start before those that wait', async () => {
  const a = await fleet.boot('a', 1);
  await a.runtime.runs.start({ prompt: 'first' }, 'one');
  await a.runtime.runs.start({ prompt: 'waits' }, 'one');
  await settle();
  // The place is free, and the claim for it is on its way.
  void a.provider.one();
  await a.runtime.runs.start({ prompt: 'newcomer' }, 'one');
  await settle();
  assert.equal(a.provider.asked, ['first', 'waits']);
});

test('after the lease of a dead node its queued runs keep their order', async () => {
  const a = await fleet.boot('a', 1);
  const b = await fleet.boot('b', 1);
  await b.runtime.runs.start({ prompt: 'busy' }, 'one');
  for (const prompt of ['1', '2', '3']) await a.runtime.runs.start({ prompt }, 'one');
  await settle();
  await fleet.kill(a);
  await fleet.pass(9000);
  await b.provider.one();
  assert.equal(b.provider.asked, ['busy', '2'], 'the lease still holds run 1');
  await fleet.pass(3000);
  await b.provider.one();
  await b.provider.one();
  assert.equal(b.provider.asked.slice(1).sort(), ['1', '2', '3']);
});

test('a run that its node left unfinished follows its recovery policy on another', async () => {
  const a = await fleet.boot('a', 3);
  const b = await fleet.boot('b', 3);
  const resumes = await a.runtime.runs.start({ prompt: 'resumes' }, 'one');
  const restarts = await a.runtime.runs.start({ prompt: 'restarts', recovery: 'restart' }, 'one');
  const ends = await a.runtime.runs.start({ prompt: 'ends', recovery: 'end' }, 'one');
  await settle();
  assert.equal(a.provider.asked, ['resumes', 'restarts', 'ends']);
  await fleet.kill(a);
  await fleet.pass(12_000);
  assert.is(await stateOf(b, ends.id), 'interrupted');
  assert.equal(b.provider.asked.sort(), ['restarts', 'resumes']);
  for (let count = 0; count < 2; count += 1) await b.provider.one();
  const resumed = await b.runtime.runs.get(resumes.id);
  assert.equal([resumed.state, resumed.output], ['completed', 'from afrom b']);
  const restarted = await b.runtime.runs.get(restarts.id);
  assert.equal([restarted.state, restarted.output], ['completed', 'from b']);
  const resume = b.provider.port.asked.find(({ run_id }) => run_id === resumes.id)?.resume;
  assert.equal([resume?.text, resume?.token_ids], ['from a', [1]], 'behind its recorded tokens');
});

test('a cancel reaches a run that waits, and a run of another node', async () => {
  const a = await fleet.boot('a', 1);
  const b = await fleet.boot('b', 1);
  const first = await a.runtime.runs.start({ prompt: 'first' }, 'one');
  const second = await a.runtime.runs.start({ prompt: 'second' }, 'one');
  const third = await a.runtime.runs.start({ prompt: 'third' }, 'one');
  await settle();
  assert.is((await b.runtime.runs.cancel(third.id, 'http')).state, 'cancelled');
  const cancelled = b.runtime.runs.cancel(first.id, 'http');
  await settle();
  await a.provider.one();
  assert.is((await cancelled).state, 'cancelled');
  const other = a.runtime.runs.cancel(second.id, 'http');
  await settle();
  await b.provider.one();
  assert.is((await other).state, 'cancelled');
});

test('a cancel of a run whose node is dead waits for the lease, and takes effect', async () => {
  const a = await fleet.boot('a', 1);
  const b = await fleet.boot('b', 1);
  const run = await a.runtime.runs.start({ prompt: 'first' }, 'one');
  await settle();
  await fleet.kill(a);
  const cancelled = b.runtime.runs.cancel(run.id, 'http');
  await fleet.pass(12_000);
  await b.provider.one();
  assert.is((await cancelled).state, 'cancelled');
});

test('a follower on another node sees each event once and in order, across a dead node', async () => {
  const a = await fleet.boot('a', 1);
  const b = await fleet.boot('b', 1);
  const c = await fleet.boot('c', 1);
  await c.runtime.runs.start({ prompt: 'keeps c busy' }, 'one');
  const run = await a.runtime.runs.start({ prompt: 'first' }, 'one');
  await settle();
  const { signal } = new AbortController();
  const versions: number[] = [];
  const types: string[] = [];
  const reading = (async () => {
    for await (const { version, type } of eventsOf(
      c.runtime.runs.follow(run.id, { form: eventData, signal }),
    )) {
      versions.push(version);
      types.push(type);
    }
  })();
  await settle();
  assert.ok(versions.length > 1, 'live events of another node arrive');
  await fleet.kill(a);
  await fleet.pass(12_000);
  await b.provider.one();
  await reading;
  assert.equal(
    versions,
    versions.map((_, index) => index + 1),
  );
  assert.is(types.at(-1), 'run.completed');
});

test('a stream resumes by its position on another node', async () => {
  const a = await fleet.boot('a', 1);
  const b = await fleet.boot('b', 1);
  const run = await a.runtime.runs.start({ prompt: 'first' }, 'one');
  await settle();
  const { signal } = new AbortController();
  const [, second] = await b.store.readStream(run.id, 1, 10);
  const from_seq = (second?.seq ?? 0) + 1;
  const seqs: number[] = [];
  const reading = (async () => {
    for await (const { seq } of eventsOf(
      b.runtime.runs.follow(run.id, { form: eventData, signal, from_seq }),
    ))
      seqs.push(seq);
  })();
  await a.provider.one();
  await reading;
  const all = (await b.store.readStream(run.id, 1, 10)).map(({ seq }) => seq);
  assert.equal(
    seqs,
    all.filter((seq) => seq >= from_seq),
  );
});

test('the whole log has one order on every node', async () => {
  const a = await fleet.boot('a', 1);
  const b = await fleet.boot('b', 1);
  const stop = new AbortController();
  const seen = [a, b].map(({ runtime }) => {
    const seqs: number[] = [];
    const done = (async () => {
      const log = runtime.history.followLog(
        { follow: true, from_seq: 1 },
        { form: eventData, signal: stop.signal },
      );
      for await (const { seq } of eventsOf(log)) seqs.push(seq);
    })();
    return { seqs, done };
  });
  for (const prompt of ['1', '2', '3', '4']) {
    await a.runtime.runs.start({ prompt }, 'one');
    await b.runtime.runs.start({ prompt }, 'one');
  }
  for (let count = 0; count < 8; count += 1) {
    await a.provider.one();
    await b.provider.one();
  }
  await settle();
  const last = await a.store.fleet.lastSeq();
  stop.abort();
  for (const { seqs, done } of seen) {
    await done;
    assert.equal(
      seqs,
      Array.from({ length: last }, (_, index) => index + 1),
    );
  }
});

test('one key gives one run, on two nodes at once', async () => {
  const a = await fleet.boot('a', 4);
  const b = await fleet.boot('b', 4);
  const input = { prompt: 'first', idempotency_key: 'k' };
  const both = Promise.all([a, b].map(({ runtime }) => runtime.runs.start(input, 'one')));
  await settle();
  await fleet.pass(1000);
  const [one, other] = await both;
  assert.is(one?.id, other?.id);
  const later = await b.runtime.runs.start(input, 'one');
  assert.is(later.id, one?.id);
  const { runs } = await a.runtime.runs.list({});
  assert.is(runs.length, 1);
});

test('the runs of a token end with it on every node, and keys are its own on each', async () => {
  const a = await fleet.boot('a', 1);
  const b = await fleet.boot('b', 1);
  const cat = holder('cat');
  const input = { prompt: 'first', idempotency_key: 'k' };
  const first = await a.runtime.as(cat).runs.start(input, 'one');
  assert.is((await b.runtime.as(cat).runs.start(input, 'one')).id, first.id);
  const home = await b.runtime.runs.start(input, 'one');
  assert.is.not(home.id, first.id);
  const waits = await a.runtime.as(cat).runs.start({ prompt: 'it waits on no node' }, 'one');
  await settle();
  const bounded = b.runtime.as(holder('cat', 'run', { concurrent: 2 }));
  assert.is(await codeOf(bounded.runs.start({ prompt: 'x' }, 'one')), 'rate_limited');
  assert.is(await codeOf(b.runtime.as(holder('dog')).runs.get(first.id)), 'run_unknown');
  const cancelled = b.runtime.runs.cancelAll('cat', 'token');
  // The provider of the first does not stop, so its grace passes.
  await fleet.pass(12_000);
  assert.is(await cancelled, 2);
  assert.equal(
    [await stateOf(a, first.id), await stateOf(a, waits.id)],
    ['cancelled', 'cancelled'],
  );
  assert.is.not(await stateOf(a, home.id), 'cancelled');
});

test('a key whose run was refused is free again on every node', async () => {
  const a = await fleet.boot('a', 1, { queue_runs: 1 });
  const b = await fleet.boot('b', 1);
  await a.runtime.runs.start({ prompt: 'takes the place' }, 'one');
  const input = { prompt: 'second', idempotency_key: 'k' };
  const code = await a.runtime.runs.start(input, 'one').catch((error: SvcError) => error.code);
  assert.is(code, 'busy');
  assert.is((await b.runtime.runs.start(input, 'one')).state, 'starting');
});

test('a list has the unfinished runs of every node', async () => {
  const a = await fleet.boot('a', 1);
  const b = await fleet.boot('b', 1);
  for (const prompt of ['1', '2', '3']) await a.runtime.runs.start({ prompt }, 'one');
  await settle();
  for (const { runtime } of [a, b]) {
    const { runs } = await runtime.runs.list({});
    assert.equal(
      runs.map(({ prompt, state }) => `${prompt} ${state}`),
      ['3 queued', '2 streaming', '1 streaming'],
    );
  }
});

test('a released run ends at its deadline while no node has a place', async () => {
  const a = await fleet.boot('a', 1, { queue_ms: 5000 });
  await a.runtime.runs.start({ prompt: '1' }, 'one');
  const waits = await a.runtime.runs.start({ prompt: '2' }, 'one');
  await settle();
  await fleet.pass(6000);
  assert.is(await stateOf(a, waits.id), 'timed_out');
});

test('of two deadlines that passed on no node, the first one ends the run', async () => {
  const a = await fleet.boot('a', 1, { queue_ms: 5000 });
  await a.runtime.runs.start({ prompt: 'busy' }, 'one');
  const { id } = await a.runtime.runs.start({ prompt: 'waits', timeout_ms: 8000 }, 'one');
  await settle();
  await fleet.kill(a);
  await fleet.pass(60_000);
  const b = await fleet.boot('b', 1);
  await fleet.pass(10_000);
  const events = await b.store.readStream(id, 1, 20);
  const passed = events.find(({ type }) => type === 'run.deadline_passed');
  assert.is((passed?.data as { deadline?: string } | undefined)?.deadline, 'queue');
});

test('a boot counts the unfinished runs of its node, not those of the fleet', async () => {
  const [a, b] = [await fleet.boot('a', 4), await fleet.boot('b', 4)];
  await a.runtime.runs.start({ prompt: '1' }, 'one');
  for (const prompt of ['2', '3']) await b.runtime.runs.start({ prompt }, 'one');
  await settle();
  const last = await readLastBoot(a.store, 'boot_a', null, { rejoins: true });
  assert.equal([last?.ending, last?.unfinished_runs], ['lease_lost', 1]);
});

test('a waiting run ends at its deadline though the node that released it is dead', async () => {
  const limits = { queue_ms: 5000 };
  const [a, b] = [await fleet.boot('a', 1, limits), await fleet.boot('b', 1, limits)];
  for (const { runtime } of [a, b]) await runtime.runs.start({ prompt: 'busy' }, 'one');
  const released = await a.runtime.runs.start({ prompt: 'waits' }, 'one');
  await settle();
  // Its release does not reach the log.
  a.store.fleet.release = () => new Promise(() => {});
  const owned = await a.runtime.runs.start({ prompt: 'waits here' }, 'one');
  await settle();
  await fleet.kill(a);
  await fleet.pass(4000);
  assert.is(await stateOf(b, released.id), 'queued');
  await fleet.pass(2000);
  assert.is(await stateOf(b, released.id), 'timed_out');
  assert.is(await stateOf(b, owned.id), 'queued', 'the lease of its node has not ended');
  await fleet.pass(8000);
  assert.is(await stateOf(b, owned.id), 'timed_out');
  assert.is(await stateOf(b, b.scheduler.activeRuns()[0] ?? ''), 'streaming');
});

test('a conversation has one turn at a time, whichever nodes are asked', async () => {
  const nodes = [await fleet.boot('a', 2), await fleet.boot('b', 2)] as const;
  const [a, b] = nodes;
  const { id } = await a.runtime.runs.start({ prompt: '1' }, 'one');
  await settle();
  await a.provider.one();
  const turn = { prompt: 'next', conversation: id };
  const asked = await Promise.allSettled(
    [a, b, b, a].map(({ runtime }) => runtime.runs.start(turn, 'one')),
  );
  const begun = asked.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  assert.is(begun.length, 1);
  for (const one of asked)
    if (one.status === 'rejected') assert.is((one.reason as SvcError).code, 'conversation_busy');
  await settle();
  for (const { runtime } of nodes)
    assert.is(await codeOf(runtime.runs.start(turn, 'one')), 'conversation_busy');
  for (const { provider } of nodes) await provider.one();
  const next = await b.runtime.runs.start(turn, 'one');
  assert.is(next.continues, begun[0]?.id);
});

test('a node that dies while a turn begins keeps no conversation', async () => {
  const a = await fleet.boot('a', 2);
  const b = await fleet.boot('b', 2);
  const { id } = await a.runtime.runs.start({ prompt: '1' }, 'one');
  await settle();
  await a.provider.one();
  a.store.append = () => new Promise(() => {});
  const turn = { prompt: 'next', conversation: id };
  a.runtime.runs.start(turn, 'one').catch(() => {});
  await settle();
  assert.is(await codeOf(b.runtime.runs.start(turn, 'one')), 'conversation_busy');
  await fleet.kill(a);
  await fleet.pass(12_000);
  assert.is((await b.runtime.runs.start(turn, 'one')).continues, id);
});

test('a run waits for a node that has its model', async () => {
  const a = await fleet.boot('a', 1, {}, ['small', 'large']);
  const b = await fleet.boot('b', 1, {}, ['small']);
  await a.runtime.runs.start({ prompt: '1', model: 'local/small' }, 'one');
  await a.runtime.runs.start({ prompt: '2', model: 'local/large' }, 'one');
  await a.runtime.runs.start({ prompt: '3', model: 'local/small' }, 'one');
  await settle();
  assert.equal([a.provider.asked, b.provider.asked], [['1'], ['3']]);
  await a.provider.one();
  assert.equal(a.provider.asked, ['1', '2']);
});

test('a run whose model this node does not list waits here, and starts here', async () => {
  const a = await fleet.boot('a', 1, {}, ['small']);
  const b = await fleet.boot('b', 1, {}, ['small']);
  await a.runtime.runs.start({ prompt: '1', model: 'local/small' }, 'one');
  await a.runtime.runs.start({ prompt: '2', model: 'local/other' }, 'one');
  await settle();
  assert.is(a.scheduler.queued, 1);
  await a.provider.one();
  assert.equal([a.provider.asked, b.provider.asked], [['1', '2'], []]);
});

test('a node at rest asks the database once at each poll', async () => {
  const { store } = await fleet.boot('a', 1);
  const asked: string[] = [];
  const methods = store.fleet as unknown as Record<string, (...args: unknown[]) => unknown>;
  for (const [name, method] of Object.entries(methods))
    methods[name] = (...args) => {
      if (name !== 'renew') asked.push(name);
      return method(...args);
    };
  await fleet.pass(10_000);
  assert.equal(asked, Array(10).fill('look'));
});

test('a free place takes the next run without a read of the log', async () => {
  const a = await fleet.boot('a', 1);
  await a.runtime.runs.start({ prompt: '1' }, 'one');
  await a.runtime.runs.start({ prompt: '2' }, 'one');
  await settle();
  const reads: string[] = [];
  const { readStream } = a.store;
  a.store.readStream = async (stream, ...rest) => {
    reads.push(stream);
    return readStream(stream, ...rest);
  };
  await a.provider.one();
  assert.equal([a.provider.asked, reads], [['1', '2'], []]);
});

test('a run whose claim had no answer is found, and runs', async () => {
  const a = await fleet.boot('a', 1);
  const b = await fleet.boot('b', 1);
  const { claim } = b.store.fleet;
  let lost = 0;
  b.store.fleet.claim = async (query) => {
    const claimed = await claim(query);
    if (claimed.length === 0 || lost > 0) return claimed;
    lost += 1;
    throw new SvcError('store_stalled');
  };
  await a.runtime.runs.start({ prompt: '1' }, 'one');
  await a.runtime.runs.start({ prompt: '2' }, 'one');
  await settle();
  assert.equal([lost, b.provider.asked], [1, []]);
  await fleet.pass(1000);
  assert.equal(b.provider.asked, ['2']);
});

test.run();
