import * as assert from 'uvu/assert';
import {
  ALL,
  accept,
  type FleetTest,
  ids,
  LEASE_MS,
  LOAD,
  LOOK,
  NONE,
  next,
} from './fleet-nodes.ts';
import { run } from './samples.ts';

/** What every fleet promises of its runs: owners, claims, keys and cancels. */
export function testFleetRuns(fleet: FleetTest): void {
  testClaims(fleet);
  testKeys(fleet);
}

function testClaims(fleet: FleetTest): void {
  fleet('models that no node lists, and runs that no node takes, are seen', async (nodes) => {
    const dead = await nodes.join('dead');
    const [path, known] = [
      run('run_1', { model: '/srv/m.gguf', state: 'streaming' }),
      run('run_2', { model: 'known', state: 'streaming' }),
    ];
    await dead.append(accept('dead', path, known));
    const query = { ...LOOK, left_ms: LEASE_MS, lists: ['local'], listed: ['local/known'] };
    await nodes.pass(LEASE_MS + 1);
    const b = await nodes.join('b');
    assert.is((await b.fleet.takeOver()).length, 1);
    const look = async () => (await b.fleet.look(query)).waiting;
    const unlisted = [{ provider: 'local', model: '/srv/m.gguf' }];
    assert.equal(await look(), { runs: 2, due: [], wanted: [], unlisted, left: [] });
    await nodes.pass(LEASE_MS / 2);
    assert.equal((await look()).left, [], 'no node lived before');
    await nodes.pass(LEASE_MS / 2 + 1);
    await b.fleet.renew(LOAD);
    assert.equal((await look()).left.sort(), ['run_1', 'run_2']);
    await b.fleet.claimRun('run_2');
    assert.equal((await look()).left, ['run_1']);
    await b.fleet.claimRun('run_1');
    assert.equal(await look(), { runs: 0, due: [], wanted: [], ...NONE });
  });

  fleet('an accepted run belongs to its node, until it is released', async (nodes) => {
    const a = await nodes.join('a');
    const b = await nodes.join('b');
    await a.append(accept('a', run('run_1'), run('run_2')));
    assert.equal((await b.fleet.look(LOOK)).waiting, { runs: 0, due: [], wanted: [], ...NONE });
    assert.is(await b.fleet.ownerOf('run_1'), 'a');
    assert.equal(await b.fleet.claim(ALL), []);
    assert.is(await b.fleet.claimRun('run_1'), null);
    assert.equal(await b.unfinishedRuns(), []);
    await a.fleet.release(['run_1', 'unknown']);
    assert.equal((await b.fleet.look(LOOK)).waiting, { runs: 1, due: [], wanted: [], ...NONE });
    assert.is(await b.fleet.ownerOf('run_1'), null);
    const events = await b.readStream('run_1', 1, 10);
    assert.is(events.length, 1);
    const claimed = { run_id: 'run_1', waits: true, kept: false, downtime_ms: 0 };
    assert.equal(await b.fleet.claim(ALL), [{ ...claimed, events }]);
    assert.equal(await b.unfinishedRuns(), ['run_1']);
    assert.equal(await a.unfinishedRuns(), ['run_2']);
    assert.equal(await a.fleet.claim(ALL), []);
  });

  fleet('a node releases only its own runs that wait', async (nodes) => {
    const a = await nodes.join('a');
    const b = await nodes.join('b');
    await a.append(accept('a', run('run_1'), run('run_2')));
    await a.append(next('a', 2, run('run_2', { state: 'running' })));
    await b.fleet.release(['run_1']);
    await a.fleet.release(['run_2']);
    assert.is((await a.fleet.look(LOOK)).waiting.runs, 0);
  });

  fleet('one look says what there is to do', async (nodes) => {
    const [a, b] = [await nodes.join('a'), await nodes.join('b')];
    const nothing = { runs: 0, due: [], wanted: [], ...NONE };
    assert.equal(await b.fleet.look(LOOK), {
      last_seq: 0,
      late: false,
      asks: false,
      waiting: nothing,
    });
    await a.append(accept('a', run('run_1')));
    await b.fleet.ask('run_1', 'http');
    assert.equal(await b.fleet.look(LOOK), {
      last_seq: 1,
      late: false,
      asks: true,
      waiting: nothing,
    });
    await nodes.pass(LEASE_MS + 1);
    assert.ok((await b.fleet.look(LOOK)).late);
    const c = await nodes.join('c');
    await c.fleet.takeOver();
    const { late, waiting } = await c.fleet.look(LOOK);
    assert.equal([late, waiting.runs], [false, 1]);
  });

  fleet('each run is claimed once, by whichever nodes ask at once', async (nodes) => {
    const stores = [await nodes.join('a'), await nodes.join('b'), await nodes.join('c')];
    const names = Array.from({ length: 30 }, (_, index) => `run_${index}`);
    await stores[0]?.append(accept('a', ...names.map((name) => run(name))));
    await stores[0]?.fleet.release(names);
    const claimed = await Promise.all(
      stores.flatMap(({ fleet }) => [fleet, fleet].map((one) => one.claim({ ...ALL, limit: 4 }))),
    );
    const all = claimed.flatMap(ids);
    assert.is(new Set(all).size, all.length);
    for (const some of claimed) assert.ok(some.length <= 4);
    const rest = await stores[1]?.fleet.claim(ALL);
    assert.equal([...all, ...ids(rest ?? [])].sort(), [...names].sort());
  });

  fleet('a node claims what it can answer', async (nodes) => {
    const a = await nodes.join('a');
    await a.append(
      accept(
        'a',
        run('run_1', { provider: 'local', model: 'small' }),
        run('run_2', { provider: 'local', model: 'large' }),
        run('run_3', { provider: 'cloud', model: 'small' }),
      ),
    );
    await a.fleet.release(['run_1', 'run_2', 'run_3']);
    const claim = async (providers: string[], models: string[], limit = 10) =>
      ids(await a.fleet.claim({ ...ALL, providers, models, limit }));
    assert.equal(await claim([], []), []);
    assert.equal(await claim(['cloud'], ['local/large'], 0), []);
    assert.equal(await claim([], ['cloud/large', 'local/other', 'small']), []);
    assert.equal(await claim(['cloud'], ['local/large']), ['run_2', 'run_3']);
    assert.equal(await claim(['local'], []), ['run_1']);
  });

  fleet('askers take turns, and the clients of each in its turns', async (nodes) => {
    const a = await nodes.join('a');
    const of = (client: string, ...names: string[]) => names.map((name) => run(name, { client }));
    const runs = [
      ...of('cat\na', 'run_1', 'run_2'),
      ...of('cat\nb', 'run_3'),
      ...of('cat\nc', 'run_4'),
      ...of('a', 'run_5', 'run_6'),
      ...of('b', 'run_7'),
      ...of('dog\na', 'run_8'),
    ];
    await a.append(accept('a', ...runs));
    await a.fleet.release(runs.map(({ run_id }) => run_id));
    const order = ['run_1', 'run_5', 'run_8', 'run_3', 'run_7', 'run_4', 'run_6', 'run_2'];
    const places = await Promise.all(order.map((run_id) => a.fleet.position(run_id)));
    assert.equal(places, [1, 2, 3, 4, 5, 6, 7, 8]);
  });

  fleet('clients take turns, and a run says its place', async (nodes) => {
    const a = await nodes.join('a');
    const of = (client: string, ...names: string[]) => names.map((name) => run(name, { client }));
    await a.append(
      accept(
        'a',
        ...of('busy', 'run_1', 'run_2', 'run_3', 'run_4'),
        ...of('other', 'run_5', 'run_6'),
        ...of('third', 'run_7'),
      ),
    );
    await a.append(next('a', 2, run('run_1', { client: 'busy', state: 'running' })));
    await a.fleet.release(['run_2', 'run_3', 'run_4', 'run_5', 'run_6', 'run_7']);
    const order = ['run_5', 'run_7', 'run_2', 'run_6', 'run_3', 'run_4'];
    assert.equal(
      await Promise.all(order.map((name) => a.fleet.position(name))),
      [1, 2, 3, 4, 5, 6],
    );
    assert.is(await a.fleet.position('run_1'), null);
    assert.equal(ids(await a.fleet.claim({ ...ALL, limit: 2 })).sort(), ['run_5', 'run_7']);
    assert.equal(ids(await a.fleet.claim({ ...ALL, limit: 2 })).sort(), ['run_2', 'run_6']);
  });

  fleet(
    'any node sees which waiting runs are due, and counts no more than it asks',
    async (nodes) => {
      const a = await nodes.join('a');
      const due = { due_at: 1 };
      await a.append(
        accept(
          'a',
          run('run_1', due),
          run('run_2', { due_at: 9e12 }),
          run('run_3', due),
          run('run_4'),
        ),
      );
      await a.append(next('a', 2, run('run_3', { ...due, state: 'running' })));
      assert.equal(
        (await a.fleet.look(LOOK)).waiting,
        { runs: 0, due: [], wanted: [], ...NONE },
        'they have an owner',
      );
      await a.fleet.release(['run_1', 'run_2', 'run_4']);
      assert.equal((await a.fleet.look({ ...LOOK, most: 2 })).waiting, {
        runs: 2,
        due: ['run_1'],
        wanted: [],
        ...NONE,
      });
      await nodes.pass(LEASE_MS + 1000);
      const b = await nodes.join('b');
      await b.fleet.takeOver();
      assert.equal(
        (await b.fleet.look(LOOK)).waiting,
        { runs: 4, due: ['run_1'], wanted: [], ...NONE },
        'run_3 had begun',
      );
      await b.fleet.claimRun('run_1');
      assert.equal((await b.fleet.look(LOOK)).waiting, { runs: 3, due: [], wanted: [], ...NONE });
    },
  );

  fleet('one run is claimed by its id', async (nodes) => {
    const a = await nodes.join('a');
    await a.append(accept('a', run('run_1'), run('run_2')));
    await a.fleet.release(['run_1', 'run_2']);
    assert.equal(await a.fleet.claimRun('run_2'), {
      run_id: 'run_2',
      waits: true,
      kept: false,
      downtime_ms: 0,
      events: await a.readStream('run_2', 1, 10),
    });
    assert.is(await a.fleet.claimRun('run_2'), null);
    assert.is(await a.fleet.claimRun('unknown'), null);
  });

  fleet('the runs of a lost node are free, with the time they were without one', async (nodes) => {
    const a = await nodes.join('a');
    await a.append(accept('a', run('run_1'), run('run_2'), run('run_3')));
    await a.append(next('a', 2, run('run_2', { state: 'running' })));
    await a.append(next('a', 2, run('run_3', { state: 'completed', finished: true })));
    await nodes.pass(LEASE_MS + 5000);
    const b = await nodes.join('b');
    const [taken] = await b.fleet.takeOver();
    assert.is(taken?.runs, 2);
    const [waits, cut, ...more] = await b.fleet.claim(ALL);
    assert.equal([waits?.run_id, waits?.waits, waits?.downtime_ms], ['run_1', true, 0]);
    assert.equal([cut?.run_id, cut?.waits, cut?.events, more], ['run_2', false, null, []]);
    // Real time may pass too, on a real database.
    const downtime = cut?.downtime_ms ?? 0;
    assert.ok(downtime >= LEASE_MS + 5000 && downtime < LEASE_MS + 65_000, String(downtime));
  });

  fleet(
    'a run that is kept for a file goes to a node with its model file, and later to any',
    async (nodes) => {
      const [a, b] = [await nodes.join('a'), await nodes.join('b')];
      const local = { provider: 'local', model: 'small', state: 'running' };
      const [small, large] = [run('run_1', local), run('run_2', { ...local, model: 'large' })];
      await a.append(accept('a', small, large));
      const file = { provider: 'local', model: 'small', file: 'sha256:1' };
      const others = [
        { ...file, model: 'large' },
        { ...file, file: 'sha256:2' },
      ];
      await b.fleet.keepFor('run_1', file.file, 5000);
      assert.is(await b.fleet.ownerOf('run_1'), 'a', 'it is not a run of this node');
      await a.fleet.keepFor('run_1', file.file, 5000);
      await a.fleet.keepFor('run_2', 'sha256:3', 5000);
      const { wanted, ...rest } = (await b.fleet.look(LOOK)).waiting;
      assert.equal(rest, { runs: 2, due: [], ...NONE });
      assert.equal(wanted.sort(byModel), [{ ...file, model: 'large', file: 'sha256:3' }, file]);
      assert.equal(await b.fleet.claim(ALL), []);
      assert.equal(await b.fleet.claim({ ...ALL, files: others }), []);
      await nodes.pass(4000);
      await b.fleet.keepOn([file, ...others], 5000);
      await nodes.pass(4000);
      const [late] = await b.fleet.claim(ALL);
      assert.equal([late?.run_id, late?.waits, late?.kept], ['run_2', false, true], 'none kept it');
      assert.equal(await a.fleet.claim({ ...ALL, providers: ['cloud'], files: [file] }), []);
      const [fits] = await a.fleet.claim({ ...ALL, files: [file] });
      assert.equal([fits?.run_id, fits?.kept], ['run_1', true]);
      assert.equal(await a.unfinishedRuns(), ['run_1']);
      assert.equal((await a.fleet.look(LOOK)).waiting, { runs: 0, due: [], wanted: [], ...NONE });
      await nodes.pass(LEASE_MS + 1);
      const c = await nodes.join('c');
      await c.fleet.takeOver();
      const [again] = await c.fleet.claim({ ...ALL, limit: 1 });
      assert.equal([again?.run_id, again?.kept], ['run_1', false], 'the next node asks again');
    },
  );

  fleet('a finished run is no longer claimed', async (nodes) => {
    const a = await nodes.join('a');
    await a.append(accept('a', run('run_1')));
    await a.append(next('a', 2, run('run_1', { state: 'completed', finished: true })));
    await a.fleet.release(['run_1']);
    await a.fleet.leave();
    const b = await nodes.join('b');
    assert.equal(await b.fleet.claim(ALL), []);
    assert.is(await b.fleet.claimRun('run_1'), null);
    assert.is(await b.fleet.ownerOf('run_1'), null);
  });
}

function testKeys(fleet: FleetTest): void {
  fleet('a key has one run in the whole fleet', async (nodes) => {
    const a = await nodes.join('a');
    const b = await nodes.join('b');
    const both = await Promise.all([
      a.fleet.reserveKey('key', 'run_1'),
      b.fleet.reserveKey('key', 'run_2'),
    ]);
    assert.is(both[0], both[1]);
    const winner = both[0] as string;
    const [mine, name] = winner === 'run_1' ? ([a, 'a'] as const) : ([b, 'b'] as const);
    await mine.append(accept(name, run(winner, { idempotency_key: 'key' })));
    assert.is(await a.fleet.reserveKey('key', 'run_3'), winner);
    assert.is(await b.fleet.reserveKey('other', 'run_4'), 'run_4');
  });

  fleet('a key is free when its run was not accepted, or gave it up', async (nodes) => {
    const a = await nodes.join('a');
    const b = await nodes.join('b');
    await a.fleet.reserveKey('key', 'run_1');
    await b.fleet.freeKey('key', 'run_2');
    assert.is(await b.fleet.reserveKey('key', 'run_2'), 'run_1');
    await a.fleet.freeKey('key', 'run_1');
    assert.is(await b.fleet.reserveKey('key', 'run_2'), 'run_2');
    await b.append(accept('b', run('run_2', { idempotency_key: 'key' })));
    await b.append(next('b', 2, run('run_2', { idempotency_key: null })));
    assert.is(await a.fleet.reserveKey('key', 'run_3'), 'run_3');
  });

  fleet('the reservation of a lost node is replaced, unless there is a run', async (nodes) => {
    const a = await nodes.join('a');
    await a.fleet.reserveKey('free', 'run_1');
    await a.fleet.reserveKey('taken', 'run_2');
    await a.append(accept('a', run('run_2', { idempotency_key: 'taken' })));
    await nodes.pass(LEASE_MS + 1);
    const b = await nodes.join('b');
    assert.is(await b.fleet.reserveKey('free', 'run_3'), 'run_1');
    await b.fleet.takeOver();
    assert.is(await b.fleet.reserveKey('free', 'run_3'), 'run_3');
    assert.is(await b.fleet.reserveKey('taken', 'run_4'), 'run_2');
  });

  fleet('a cancel reaches the owner of the run', async (nodes) => {
    const a = await nodes.join('a');
    const b = await nodes.join('b');
    await a.append(accept('a', run('run_1'), run('run_2')));
    const heard = Promise.withResolvers<void>();
    const listening = new AbortController();
    a.fleet.onChange(({ asks }) => asks && heard.resolve(), listening.signal);
    await b.fleet.ask('run_1', 'http');
    await b.fleet.ask('unknown', 'http');
    await heard.promise;
    listening.abort();
    assert.equal(await a.fleet.listCancels(), [{ run_id: 'run_1', by: 'http' }]);
    assert.equal(await b.fleet.listCancels(), []);
    // It stays with the run, wherever that goes, until its end.
    await a.fleet.release(['run_1']);
    await b.fleet.claimRun('run_1');
    assert.equal(await b.fleet.listCancels(), [{ run_id: 'run_1', by: 'http' }]);
    await b.append(next('b', 2, run('run_1', { state: 'cancelled', finished: true })));
    assert.equal(await b.fleet.listCancels(), []);
  });
}

const byModel = (a: { model: string }, b: { model: string }) => (a.model < b.model ? -1 : 1);
