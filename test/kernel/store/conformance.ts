import fc from 'fast-check';
import type { Test } from 'uvu';
import * as assert from 'uvu/assert';
import { SCHEMA_VERSION } from '../../../machines/events.ts';
import type {
  Commit,
  EventStore,
  RunQuery,
  RunRow,
  StoredEvent,
} from '../../../src/kernel/store/port.ts';
import { accepted, codeOf, event, foundIn, run, series } from './samples.ts';
import { type TextsOf, testTexts } from './texts-conformance.ts';
import { testUsage } from './usage-conformance.ts';

export interface Subject {
  store: EventStore;
  /** Another store over the same log, once the first is closed. */
  again(): EventStore;
  /** False: it is in memory, where sums of usage have no bounds. */
  bounded?: boolean;
  /** The texts that are stored once, while the store is closed. Absent: it has none. */
  texts?: TextsOf;
  remove(): void | Promise<void>;
}

export interface ConformanceOptions {
  /** The log has several writers, so it assigns the positions itself. */
  shared?: boolean;
}

/** What every event store promises. */
export function storeConformance(
  test: Test,
  make: () => Subject,
  { shared = false }: ConformanceOptions = {},
): void {
  const opened = (name: string, work: (store: EventStore, subject: Subject) => Promise<void>) =>
    test(name, async () => {
      const subject = make();
      try {
        await subject.store.open();
        await work(subject.store, subject);
        await subject.store.close();
      } finally {
        await subject.store.close();
        await subject.remove();
      }
    });

  testLog(opened);
  if (shared) testPositions(opened);
  else testPlaces(opened);
  testRefusals(opened, shared ? WRONG : [...WRONG_PLACES, ...WRONG]);
  testRuns(opened);
  testPrune(opened);
  testUsage(opened);
  testContents(opened);
  testTexts(opened);
  testLife(opened, test, make, shared);
}

type Opened = (name: string, work: (store: EventStore, subject: Subject) => Promise<void>) => void;

async function everything(store: EventStore): Promise<StoredEvent[]> {
  const all: StoredEvent[] = [];
  for (;;) {
    const page = await store.readAll((all.at(-1)?.seq ?? 0) + 1, 1000);
    if (page.length === 0) return all;
    all.push(...page);
  }
}

function testLog(opened: Opened): void {
  opened('an event comes back as it was appended', async (store) => {
    const one = event(1, 'run_1', 1, {
      type: 'run.accepted',
      schema: SCHEMA_VERSION,
      at: 1_700_000_000_123,
      boot_id: 'boot_9',
      data: { a: [1, { b: null }], c: 'x' },
    });
    await store.append({ events: [one], runs: [] });
    assert.equal(await store.readAll(1, 10), [one]);
    assert.equal(await store.readStream('run_1', 1, 10), [one]);
  });

  opened('the log is ordered by seq, and each stream by version', async (store) => {
    await store.append({
      events: [event(1, 'a', 1), event(2, 'b', 1), event(3, 'a', 2)],
      runs: [],
    });
    await store.append({ events: [event(4, 'b', 2), event(5, 'a', 3)], runs: [] });
    assert.equal(
      (await everything(store)).map(({ seq, stream, version }) => [seq, stream, version]),
      [
        [1, 'a', 1],
        [2, 'b', 1],
        [3, 'a', 2],
        [4, 'b', 2],
        [5, 'a', 3],
      ],
    );
    assert.equal(
      (await store.readStream('a', 1, 10)).map(({ seq }) => seq),
      [1, 3, 5],
    );
  });

  opened('a stream is read from a version, up to the limit', async (store) => {
    await store.append({ events: [event(1, 'other', 1)], runs: [] });
    await store.append({
      events: Array.from({ length: 10 }, (_, index) => event(index + 2, 's', index + 1)),
      runs: [],
    });
    const versions = async (from: number, limit: number) =>
      (await store.readStream('s', from, limit)).map(({ version }) => version);
    assert.equal(await versions(4, 3), [4, 5, 6]);
    assert.equal(await versions(9, 100), [9, 10]);
    assert.equal(await versions(0, 2), [1, 2]);
    assert.equal(await versions(-5, 2), [1, 2]);
    assert.equal(await versions(11, 5), []);
    assert.equal(await versions(1, 0), []);
    assert.equal(await store.readStream('unknown', 1, 5), []);
  });

  opened('the last event of a stream is found, wherever it is in the log', async (store) => {
    await store.append({
      events: [event(1, 'a', 1), event(2, 'b', 1), event(3, 'a', 2)],
      runs: [],
    });
    await store.append({ events: [event(4, 'b', 2), event(5, 'b', 3)], runs: [] });
    assert.equal(await store.lastEvent('a'), event(3, 'a', 2));
    assert.equal(await store.lastEvent('b'), event(5, 'b', 3));
    assert.is(await store.lastEvent('unknown'), null);
    await store.append({ events: [event(6, 'b', 4, { type: 'test.ended' })], runs: [] });
    assert.equal(await store.lastEvent('b', ['test.happened', 'x']), event(5, 'b', 3));
    assert.is(await store.lastEvent('b', ['x']), null);
  });

  opened('the log is read from a position, up to the limit', async (store) => {
    await store.append(series(1, 10));
    const seqs = async (from: number, limit: number) =>
      (await store.readAll(from, limit)).map(({ seq }) => seq);
    assert.equal(await seqs(8, 2), [8, 9]);
    assert.equal(await seqs(10, 1000), [10]);
    assert.equal(await seqs(0, 1), [1]);
    assert.equal(await seqs(11, 1), []);
  });

  opened('many streams keep their events apart', async (store) => {
    let seq = 0;
    for (let version = 1; version <= 5; version += 1) {
      await store.append({
        events: Array.from({ length: 200 }, (_, index) => event(++seq, `stream_${index}`, version)),
        runs: [],
      });
    }
    assert.is((await everything(store)).length, 1000);
    for (const index of [0, 7, 199])
      assert.equal(
        (await store.readStream(`stream_${index}`, 1, 100)).map((one) => one.seq),
        [1, 201, 401, 601, 801].map((first) => first + index),
      );
  });

  opened('appends that are asked for without waiting are done in their order', async (store) => {
    const asked = Array.from({ length: 50 }, (_, index) => store.append(series(index * 3 + 1, 3)));
    assert.is(
      (await store.readAll(1, 1000)).length,
      150,
      'a read that is asked for later sees them',
    );
    await Promise.all(asked);
    assert.equal(
      (await everything(store)).map(({ seq }) => seq),
      Array.from({ length: 150 }, (_, index) => index + 1),
    );
  });

  opened('an append of nothing is done', async (store) => {
    await store.append({ events: [], runs: [] });
    assert.equal(await everything(store), []);
  });

  opened('any sequence of commits reads back as a list would', async (store) => {
    const model: StoredEvent[] = [];
    const commits = fc.array(
      fc.record({
        stream: fc.constantFrom('a', 'b', 'c'),
        data: fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue()),
      }),
      { minLength: 1, maxLength: 6 },
    );
    await fc.assert(
      fc.asyncProperty(commits, async (drawn) => {
        const events: StoredEvent[] = [];
        for (const { stream, data } of drawn) {
          const version = [...model, ...events].filter((one) => one.stream === stream).length + 1;
          events.push(
            event(model.length + events.length + 1, stream, version, {
              data: JSON.parse(JSON.stringify(data)) as Record<string, unknown>,
            }),
          );
        }
        await store.append({ events, runs: [] });
        model.push(...events);
        assert.equal(await everything(store), model);
      }),
      { numRuns: 25 },
    );
    assert.equal((await store.verify()).problems, []);
  });
}

/** Of a log with one writer. */
function testPlaces(opened: Opened): void {
  opened('of two appends for the same place one is refused', async (store) => {
    const both = await Promise.all([
      codeOf(store.append(series(1, 2))),
      codeOf(store.append({ events: [event(1, 'late', 1)], runs: [] })),
    ]);
    assert.equal(both, [null, 'store_conflict']);
    assert.equal(
      (await everything(store)).map(({ stream }) => stream),
      ['s', 's'],
    );
  });
}

/** Of a log with several writers. */
function testPositions(opened: Opened): void {
  opened('the log assigns the positions of a commit, and answers the first one', async (store) => {
    assert.is((await store.append(series(1, 2))).first_seq, 1);
    const late = accepted(1, [run('run_1', { finished: true, record: { seq: 1, output: 'x' } })]);
    assert.is((await store.append(late)).first_seq, 3);
    const ahead = { events: [event(70, 'a', 1), event(71, 'b', 1)], runs: [] };
    assert.is((await store.append(ahead)).first_seq, 4);
    assert.equal(
      (await everything(store)).map(({ seq, stream }) => [seq, stream]),
      [
        [1, 's'],
        [2, 's'],
        [3, 'run_1'],
        [4, 'a'],
        [5, 'b'],
      ],
    );
    const found = await store.getRun('run_1');
    assert.equal([found?.seq, found?.record], [3, { seq: 3, output: 'x' }]);
    assert.is(
      Buffer.from((await store.readRecord('run_1')) ?? []).toString(),
      '{"seq":3,"output":"x"}',
    );
    assert.equal((await store.verify()).problems, []);
  });
}

const WRONG_PLACES: readonly Wrong[] = [
  ['a gap in the log', { events: [event(5, 's', 3)], runs: [] }],
  ['a position that is taken', { events: [event(3, 's', 3)], runs: [] }],
];

const WRONG: readonly Wrong[] = [
  ['a gap in a stream', { events: [event(4, 's', 4)], runs: [] }],
  ['a version that is taken', { events: [event(4, 's', 2)], runs: [] }],
  ['a stream that does not begin with 1', { events: [event(4, 'new', 2)], runs: [] }],
  ['a gap within a commit', { events: [event(4, 's', 3), event(6, 's', 4)], runs: [] }],
  ['a version twice within a commit', { events: [event(4, 's', 3), event(5, 's', 3)], runs: [] }],
  [
    'an error in the last of many',
    {
      events: [
        ...Array.from({ length: 500 }, (_, index) => event(index + 4, 's', index + 3)),
        event(504, 's', 1),
      ],
      runs: [],
    },
  ],
  ['a position that is not a number', { events: [event(Number.NaN, 's', 3)], runs: [] }],
  ['a time that is not a number', { events: [event(4, 's', 3, { at: Number.NaN })], runs: [] }],
  ['a stream without a name', { events: [event(4, '', 1)], runs: [] }],
  ['a name with a NUL', { events: [event(4, 'a\0b', 1)], runs: [] }],
  ['a name with a lone surrogate', { events: [event(4, 's', 3, { type: 'x\ud800' })], runs: [] }],
  ['a run without an id', { events: [event(4, 's', 3)], runs: [run('')] }],
  ['a run without an event', { events: [event(4, 's', 3)], runs: [run('run_2')] }],
  [
    'an idempotency key that another run has',
    accepted(4, [run('run_2', { idempotency_key: 'k' })]),
  ],
  [
    'one idempotency key for two runs',
    accepted(4, [run('run_2', { idempotency_key: 'l' }), run('run_3', { idempotency_key: 'l' })]),
  ],
  ['an idempotency key with a NUL', accepted(4, [run('run_2', { idempotency_key: 'a\0' })])],
  ['data that refers to itself', { events: [event(4, 's', 3, { data: circular() })], runs: [] }],
  [
    'data that JSON cannot express',
    { events: [event(4, 's', 3, { data: { big: 1n } })], runs: [] },
  ],
];

type Wrong = [what: string, commit: Commit];

function testRefusals(opened: Opened, wrong: readonly Wrong[]): void {
  for (const [what, commit] of wrong) {
    opened(`${what} is refused and changes nothing`, async (store) => {
      await store.append(series(1, 2));
      await store.append(accepted(3, [run('run_1', { idempotency_key: 'k' })]));
      const runs = [
        run('run_1', { state: 'wrong', finished: true, idempotency_key: 'k' }),
        ...commit.runs,
      ];
      assert.is(await codeOf(store.append({ events: commit.events, runs })), 'store_conflict');
      assert.equal(
        (await everything(store)).map(({ seq }) => seq),
        [1, 2, 3],
      );
      assert.is((await store.getRun('run_1'))?.state, 'queued');
      await store.append({ events: [event(4, 's', 3)], runs: [] });
      assert.equal(
        (await everything(store)).map(({ seq }) => seq),
        [1, 2, 3, 4],
        'the right commit is accepted afterwards',
      );
    });
  }
}

function circular(): Record<string, unknown> {
  const data: Record<string, unknown> = {};
  data.self = data;
  return data;
}

function testRuns(opened: Opened): void {
  opened('a run is as its last row, and appears with the events of its commit', async (store) => {
    const done = run('run_1', {
      state: 'completed',
      finished: true,
      idempotency_key: 'key',
      record: { output: 'hello', seq: 2 },
      seq: 2,
    });
    await store.append({ events: [event(1, 'run_1', 1)], runs: [run('run_1')] });
    assert.equal(await store.getRun('run_1'), run('run_1'));
    assert.is(await store.readRecord('run_1'), null, 'an unfinished run has no record yet');
    await store.append({
      events: [event(2, 'run_1', 2)],
      runs: [run('run_1', { state: 'streaming', seq: 2 }), done],
    });
    assert.equal(await store.getRun('run_1'), done);
    assert.equal(await store.listRuns({ limit: 10 }), [done]);
    assert.is(await store.getRun('unknown'), null);
    const record = await store.readRecord('run_1');
    assert.is(
      Buffer.from(record ?? []).toString(),
      JSON.stringify(done.record),
      'its record is the same JSON, as bytes',
    );
    assert.is(await store.readRecord('unknown'), null);
    const head = { state: 'completed', finished: true, seq: done.seq, conversation: 'run_1' };
    assert.equal(await store.runHead('run_1'), head);
    assert.is(await store.runHead('unknown'), null);
  });

  opened(
    'runs are found by their conversation, their origin and the beginning of their id',
    async (store) => {
      await store.append(
        accepted(1, [
          run('run_a1', { origin: '/x' }),
          run('run_a2', { conversation: 'run_a1', origin: '/y' }),
          run('run_b1', { origin: '/x' }),
          run('run_a3', { conversation: 'run_a1' }),
        ]),
      );
      await store.append({
        events: [event(5, 'run_a1', 2)],
        runs: [run('run_a1', { origin: '/x', state: 'done', seq: 5 })],
      });
      const list = async (query: object) =>
        (await store.listRuns({ limit: 9, ...query })).map(({ run_id }) => run_id);
      assert.equal(await list({ conversation: 'run_a1' }), ['run_a3', 'run_a2', 'run_a1']);
      assert.equal(await list({ conversation: 'run_a1', state: 'done' }), ['run_a1']);
      assert.equal(await list({ conversation: 'run_a1', before: 'run_a3', limit: 1 }), ['run_a2']);
      assert.equal(await list({ conversation: 'run_b1' }), ['run_b1']);
      assert.equal(await list({ conversation: 'run_a2' }), [], 'a later run names none');
      assert.equal(await list({ latest: true }), ['run_a3', 'run_b1']);
      assert.equal(await list({ latest: true, before: 'run_a3' }), ['run_b1']);
      assert.equal(await list({ latest: true, conversation: 'run_a1' }), ['run_a3']);
      assert.equal(
        [await store.lastRun(null), await store.lastRun('/x'), await store.lastRun('/z')],
        ['run_a3', 'run_b1', null],
      );
      const conversations = ['run_a2', 'run_a1', 'run_b1'].map((id) => store.runHead(id));
      assert.equal(
        (await Promise.all(conversations)).map((head) => head?.conversation),
        ['run_a1', 'run_a1', 'run_b1'],
      );
      assert.equal(await store.runsNamed('run_a', 2), ['run_a1', 'run_a2']);
      assert.equal(await store.runsNamed('run_b1', 9), ['run_b1']);
      assert.equal(await store.runsNamed('run_c', 9), []);
      assert.equal(
        await store.getRun('run_a2'),
        run('run_a2', { conversation: 'run_a1', origin: '/y' }),
      );
      await store.append({
        events: [event(6, 'run_a3', 2), event(7, 'other', 1)],
        runs: [run('run_a3', { conversation: 'run_a1', finished: true, seq: 6 })],
      });
      await store.removeRun('run_a3');
      assert.equal(await list({ conversation: 'run_a1' }), ['run_a2', 'run_a1']);
      assert.equal(await list({ latest: true }), ['run_b1', 'run_a2']);
    },
  );

  opened('a run goes with the title of the conversation that it began', async (store) => {
    const title = 'conversation:run_a1';
    await store.append(accepted(1, [run('run_a1'), run('run_b1')]));
    await store.append({
      events: [event(3, 'run_a1', 2), event(4, title, 1)],
      runs: [run('run_a1', { finished: true, seq: 3 })],
    });
    const nothing = { runs: 0, events: 0, more: false };
    assert.equal(await store.removeRun('run_a1'), nothing, 'the title is the last event');
    await store.append({ events: [event(5, title, 2), event(6, 'other', 1)], runs: [] });
    assert.equal(await store.removeRun('run_a1'), { runs: 1, events: 4, more: false });
    assert.is(await store.lastEvent(title), null);
    assert.equal(
      (await store.readAll(1, 9)).map(({ seq }) => seq),
      [2, 6],
    );
  });

  opened('runs are found by who asked them, in whole pages', async (store, subject) => {
    const askers = [null, 'cat', null, 'cat', 'dog', 'cat'];
    // Texts of any kind come before the name, and say other names.
    const request = { text: 'a\0b \ud800 \\u0041 "asked_by":"dog"', asked_by: 'dog' };
    const first = (asked_by: string | null, index: number) =>
      event(index + 1, `run_${index + 1}`, 1, {
        type: 'run.accepted',
        data: {
          request,
          metadata: { asked_by: 'dog' },
          ...(asked_by === null ? {} : { asked_by }),
        },
      });
    const done = (_: unknown, index: number) =>
      run(`run_${index + 1}`, {
        seq: index + 1,
        finished: index !== 5,
        state: index === 5 ? 'queued' : 'completed',
        record: index === 5 ? null : { prompt: 'a daemon', output: '' },
        origin: '/x',
        ...(index === 3 ? { conversation: 'run_1' } : {}),
      });
    await store.append({ events: askers.map(first), runs: askers.map(done) });
    const look = async (of: EventStore) => {
      const list = async (query: object) =>
        (await of.listRuns({ limit: 2, ...query })).map(({ run_id }) => run_id);
      const find = async (query: object) =>
        (await of.searchRuns({ terms: ['daemon'], limit: 9, ...query })).map(
          ({ run_id }) => run_id,
        );
      return [
        [await list({ asked_by: 'cat' }), await list({ asked_by: 'cat', before: 'run_4' })],
        [await list({ asked_by: 'dog' }), await list({ asked_by: 'none' })],
        [await list({ asked_by: 'cat', conversation: 'run_1' })],
        [await list({ unfinished: true }), await list({ asked_by: 'dog', unfinished: true })],
        [await find({ asked_by: 'cat' }), await find({ asked_by: 'cat', before: 'run_4' })],
        [await of.runsNamed('run_', 9, 'cat'), await of.runsNamed('run_5', 9, 'cat')],
        [await of.lastRun(null, 'cat'), await of.lastRun(null, null), await of.lastRun(null, 'x')],
        [await of.lastRun('/x', null), await of.lastRun('/x', 'dog'), await of.lastRun('/y', null)],
        [await of.askerOf('run_2'), await of.askerOf('run_1'), await of.askerOf('run_9')],
      ];
    };
    const seen = [
      [['run_6', 'run_4'], ['run_2']],
      [['run_5'], []],
      [['run_4']],
      [['run_6'], []],
      [['run_4', 'run_2'], ['run_2']],
      [['run_2', 'run_4', 'run_6'], []],
      ['run_6', 'run_3', null],
      ['run_3', 'run_5', null],
      ['cat', null, null],
    ];
    assert.equal(await look(store), seen);
    await store.close();
    const again = subject.again();
    await again.open();
    assert.equal(await look(again), seen);
    await again.close();
  });

  opened('finished runs are found by their words, newest first, with a snippet', async (store) => {
    const done = (run_id: string, seq: number, prompt: string, output: string, more = {}) =>
      run(run_id, { finished: true, state: 'completed', seq, record: { prompt, output }, ...more });
    await store.append(
      accepted(1, [
        done('run_1', 1, 'What is a daemon?', 'A daemon runs in the background.'),
        done('run_2', 2, 'And a socket', 'It joins two programs.', { conversation: 'run_1' }),
        done('run_3', 3, '', 'Daemons again: "quoted", naïve.'),
        run('run_4', { seq: 4 }),
      ]),
    );
    const found = async (text: string, query: object = {}) =>
      (await store.searchRuns({ terms: text.split('|'), limit: 9, ...query })).map(
        ({ run_id }) => run_id,
      );
    assert.equal(await found('DAEMON'), ['run_1']);
    assert.equal(await found('program'), [], 'words are whole');
    assert.equal(await found('a'), ['run_2', 'run_1']);
    assert.equal(await found('a', { limit: 1 }), ['run_2']);
    assert.equal(await found('a', { before: 'run_2' }), ['run_1']);
    assert.equal(await found('again'), ['run_3']);
    assert.equal(await found('in|background'), ['run_1']);
    assert.equal(await found('naïve', { before: 'run_3' }), []);
    assert.equal(await found('daemon|background'), ['run_1'], 'in prompt and answer together');
    assert.equal(await found('daemon|socket'), []);
    assert.equal(await found('two programs'), ['run_2'], 'words in a row');
    assert.equal(await found('programs two'), []);
    assert.equal(await found('DAEM*'), ['run_3', 'run_1'], 'the beginning of a word');
    assert.equal(await found('two prog*'), ['run_2'], 'of the last word in a row');
    assert.equal(await found('daemo*|backgr*'), ['run_1']);
    assert.equal(
      [await found('naï*'), await found('aemo*'), await found('zz*')],
      [['run_3'], [], []],
    );
    const [begun] = await foundIn(store, { terms: ['sock*'], limit: 1 });
    const [from, to] = begun?.matches[0] ?? [];
    assert.is(begun?.snippet.slice(from, to), 'socket', 'the whole word is marked');
    assert.equal(await found('"quoted" OR daemon'), []);
    const [socket] = await foundIn(store, { terms: ['socket'], limit: 1 });
    const { snippet = '', matches: [[begin, end] = [0, 0]] = [], ...rest } = socket ?? {};
    assert.is(snippet.slice(begin, end), 'socket');
    assert.equal(rest, {
      run_id: 'run_2',
      state: 'completed',
      provider: 'local',
      model: 'mini',
      created_at: 1000,
      conversation: 'run_1',
    });
    await store.append({ events: [event(5, 'other', 1)], runs: [] });
    await store.removeRun('run_1');
    assert.equal(await found('background'), []);
  });

  opened(
    'runs are listed newest first in log order, and pages meet without a gap or a repeat',
    async (store) => {
      const times = [5, 3, 9, 3, 9, 1, 7, 3];
      const rows = times.map((created_at, index) => run(`run_${index}`, { created_at }));
      await store.append(accepted(1, rows));
      await store.append({
        events: [event(9, 'run_2', 2)],
        runs: [run('run_2', { created_at: 99, seq: 9 })],
      });
      const newestFirst = ['run_7', 'run_6', 'run_5', 'run_4', 'run_3', 'run_2', 'run_1', 'run_0'];
      assert.equal(
        (await store.listRuns({ limit: 100 })).map(({ run_id }) => run_id),
        newestFirst,
      );
      const paged: string[] = [];
      for (
        let page = await store.listRuns({ limit: 3 });
        page.length > 0;
        page = await store.listRuns({ limit: 3, before: paged.at(-1) as string })
      )
        paged.push(...page.map(({ run_id }) => run_id));
      assert.equal(paged, newestFirst);
      assert.equal(await store.listRuns({ limit: 3, before: 'unknown' }), []);
      assert.equal(await store.listRuns({ limit: 0 }), []);
    },
  );

  opened('runs are listed by state, by provider and by model', async (store) => {
    const kinds: [state: string, provider: string, model: string][] = [
      ['failed', 'local', 'a'],
      ['completed', 'local', 'b'],
      ['completed', 'cloud', 'b'],
      ['failed', 'cloud', 'a\u0000'],
      ['completed', 'local', 'a'],
    ];
    await store.append(
      accepted(
        1,
        kinds.map(([state, provider, model], index) =>
          run(`run_${index}`, { state, provider, model, finished: true }),
        ),
      ),
    );
    const list = async (query: Partial<RunQuery>) =>
      (await store.listRuns({ limit: 10, ...query })).map(({ run_id }) => run_id);
    assert.equal(await list({ state: 'completed' }), ['run_4', 'run_2', 'run_1']);
    assert.equal(await list({ provider: 'cloud' }), ['run_3', 'run_2']);
    assert.equal(await list({ state: 'completed', provider: 'local' }), ['run_4', 'run_1']);
    assert.equal(await list({ state: 'completed', before: 'run_3' }), ['run_2', 'run_1']);
    assert.equal(await list({ model: 'b' }), ['run_2', 'run_1']);
    assert.equal(await list({ model: 'a\u0000' }), ['run_3']);
    assert.equal(await list({ model: 'a', state: 'failed' }), ['run_0']);
    assert.equal(await list({ state: 'failed' }), ['run_3', 'run_0']);
    assert.equal(await list({ state: 'failed', before: 'run_3' }), ['run_0']);
    assert.equal(await list({ state: 'unknown' }), []);
  });

  opened('unfinished runs are found oldest first, and counted', async (store) => {
    const rows: RunRow[] = [
      run('run_c', { created_at: 3 }),
      run('run_a', { created_at: 2 }),
      run('run_b', { created_at: 1 }),
      run('run_d', { created_at: 0, finished: true }),
    ];
    await store.append(accepted(1, rows));
    assert.equal(await store.unfinishedRuns(), ['run_c', 'run_a', 'run_b']);
    assert.equal(await store.unfinishedRuns('queued'), ['run_c', 'run_a', 'run_b']);
    assert.equal(await store.unfinishedRuns('streaming'), []);
    assert.equal(await store.countRuns(), { finished: 1, unfinished: 3 });
    await store.append({
      events: [event(5, 'run_a', 2)],
      runs: [run('run_a', { finished: true, seq: 5 })],
    });
    assert.equal(await store.unfinishedRuns(), ['run_c', 'run_b']);
    assert.equal(await store.countRuns(), { finished: 2, unfinished: 2 });
  });

  opened('a run is found by its idempotency key, until another run gets it', async (store) => {
    const first = run('run_1', { idempotency_key: 'k', request_digest: 'd'.repeat(64) });
    await store.append(accepted(1, [first, run('run_2', { idempotency_key: 'K', seq: 2 })]));
    assert.equal(await store.getRunByKey('k'), first);
    assert.is((await store.getRunByKey('K'))?.run_id, 'run_2');
    assert.is(await store.getRunByKey('other'), null);
    assert.is(await store.getRunByKey(''), null);
    const withdrawn = run('run_1', { state: 'interrupted', finished: true, seq: 3 });
    const taken = run('run_3', { idempotency_key: 'k', seq: 4 });
    await store.append({
      events: [event(3, 'run_1', 2), event(4, 'run_3', 1)],
      runs: [withdrawn, taken],
    });
    assert.equal(await store.getRunByKey('k'), taken);
    assert.equal(await store.getRun('run_1'), withdrawn);
    await store.append({
      events: [event(5, 'run_3', 2)],
      runs: [{ ...taken, finished: true, seq: 5 }],
    });
    assert.is((await store.getRunByKey('k'))?.seq, 5, 'a finished run keeps its key');
  });

  opened('the runs of a moment are those accepted by then that were not over', async (store) => {
    await store.append(accepted(1, [run('run_a'), run('run_b'), run('run_c')]));
    await store.append({
      events: [event(4, 'run_b', 2)],
      runs: [run('run_b', { finished: true, seq: 4 })],
    });
    await store.append({ events: [event(5, 'run_c', 2)], runs: [run('run_c', { seq: 5 })] });
    await store.append(accepted(6, [run('run_d', { seq: 6 })]));
    await store.append({
      events: [event(7, 'run_a', 2)],
      runs: [run('run_a', { finished: true, seq: 7 })],
    });
    assert.equal(await store.runsAt(0, 10), []);
    assert.equal(await store.runsAt(1, 10), ['run_a']);
    assert.equal(
      await store.runsAt(4, 10),
      ['run_a', 'run_b', 'run_c'],
      'its last event is still one of that moment',
    );
    assert.equal(await store.runsAt(5, 10), ['run_a', 'run_c']);
    assert.equal(await store.runsAt(7, 10), ['run_a', 'run_c', 'run_d']);
    assert.equal(await store.runsAt(8, 10), ['run_c', 'run_d']);
    assert.equal(await store.runsAt(7, 2), ['run_a', 'run_c']);
    assert.equal(await store.runsAt(7, 0), []);
  });

  opened('the bounds of runs are told with the boot that accepted each', async (store) => {
    const of = (boot_id: string, type: string) => ({ boot_id, type });
    const [began, ended] = ['run.accepted', 'run.failed'];
    await store.append({
      events: [
        event(1, 'daemon:boot_1', 1, of('boot_1', 'daemon.boot_started')),
        event(2, 'run_a', 1, of('boot_1', began)),
        event(3, 'run_b', 1, of('boot_1', began)),
        event(4, 'run_a', 2, of('boot_1', 'run.started')),
        event(5, 'run_a', 3, of('boot_1', ended)),
        event(6, 'run_c', 1, of('boot_2', began)),
        event(7, 'run_b', 2, of('boot_2', ended)),
      ],
      runs: ['run_a', 'run_b', 'run_c'].map((id) => run(id, { seq: 6 })),
    });
    const bound = (seq: number, type: string, run_id: string, accepted_by: string) => ({
      seq,
      at: 1_700_000_000_000 + seq,
      type,
      run_id,
      accepted_by,
    });
    const first = [
      bound(2, began, 'run_a', 'boot_1'),
      bound(3, began, 'run_b', 'boot_1'),
      bound(5, ended, 'run_a', 'boot_1'),
    ];
    assert.equal(await store.runBounds('boot_1', 0, 7), first);
    assert.equal(await store.runBounds('boot_1', 2, 5), first.slice(1));
    assert.equal(await store.runBounds('boot_1', 2, 4), first.slice(1, 2));
    assert.equal(await store.runBounds('boot_2', 0, 7), [
      bound(6, began, 'run_c', 'boot_2'),
      bound(7, ended, 'run_b', 'boot_1'),
    ]);
    assert.equal(await store.runBounds('boot_3', 0, 7), []);
  });

  opened(
    'the streams that began in a part of the log are listed in its order, without runs',
    async (store) => {
      const begin = (seq: number, stream: string, type = 'test.began') =>
        event(seq, stream, 1, { type });
      const events = [
        begin(1, 'daemon:1'),
        begin(2, 'z'),
        event(3, 'z', 2),
        begin(4, 'run_1', 'run.accepted'),
        begin(5, 'a'),
        begin(6, 'm'),
      ];
      await store.append({ events, runs: [run('run_1', { seq: 4 })] });
      assert.equal(await store.startedStreams(1, 6, 10), ['daemon:1', 'z', 'a', 'm']);
      assert.equal(await store.startedStreams(2, 5, 10), ['z', 'a']);
      assert.equal(await store.startedStreams(3, 4, 10), []);
      assert.equal(await store.startedStreams(1, 6, 2), ['daemon:1', 'z']);
    },
  );
}

/** Runs of three events each, from `first` on; each ends at the time of its last event. */
function finishedRuns(
  first: number,
  names: readonly string[],
  changes: Partial<RunRow> = {},
): Commit {
  const events = names.flatMap((run_id, index) => {
    const seq = first + index * 3;
    return [
      event(seq, run_id, 1, { type: 'run.accepted' }),
      event(seq + 1, run_id, 2),
      event(seq + 2, run_id, 3),
    ];
  });
  return {
    events,
    runs: names.map((run_id, index) =>
      run(run_id, { state: 'completed', finished: true, seq: first + index * 3 + 2, ...changes }),
    ),
  };
}

const ALL = {
  before_at: Number.MAX_SAFE_INTEGER,
  max_bytes: null,
  keep_boot: 'boot_2',
  limit: 100,
};

async function kept(store: EventStore): Promise<[streams: string[], runs: string[]]> {
  const streams = new Set((await everything(store)).map(({ stream }) => stream));
  return [[...streams], (await store.listRuns({ limit: 100 })).map(({ run_id }) => run_id)];
}

function testPrune(opened: Opened): void {
  const boot = (seq: number, boot_id: string, version = 1) =>
    event(seq, `daemon:${boot_id}`, version, {
      type: version === 1 ? 'daemon.boot_started' : 'daemon.stopped',
      boot_id,
    });

  opened(
    'old runs are removed whole, the oldest first, with their keys, and unfinished ones stay',
    async (store) => {
      await store.append({ events: [boot(1, 'boot_2')], runs: [] });
      await store.append(finishedRuns(2, ['run_a'], { idempotency_key: 'k' }));
      await store.append(accepted(5, [run('run_b', { seq: 5 })]));
      await store.append(finishedRuns(6, ['run_c', 'run_d']));
      await store.append({
        events: [event(12, 'run_b', 2), boot(13, 'boot_2', 2)],
        runs: [run('run_b', { seq: 12 })],
      });
      const { at } = event(9, 's', 1);
      assert.equal(await store.prune({ ...ALL, before_at: null }), {
        runs: 0,
        events: 0,
        more: false,
      });
      assert.equal(await store.prune({ ...ALL, before_at: at, limit: 1 }), {
        runs: 1,
        events: 3,
        more: true,
      });
      assert.equal(await kept(store), [
        ['daemon:boot_2', 'run_b', 'run_c', 'run_d'],
        ['run_d', 'run_c', 'run_b'],
      ]);
      assert.is(await store.getRunByKey('k'), null);
      assert.equal(
        await store.prune({ ...ALL, before_at: at }),
        { runs: 1, events: 3, more: false },
        'runs that ended at that time or later stay',
      );
      assert.equal(await kept(store), [
        ['daemon:boot_2', 'run_b', 'run_d'],
        ['run_d', 'run_b'],
      ]);
      assert.equal(await store.prune(ALL), { runs: 1, events: 3, more: false });
      assert.equal(await store.unfinishedRuns(), ['run_b']);
      assert.equal(await store.verify(), { ok: true, events: 4, problems: [] });
      await store.append(accepted(14, [run('run_a', { seq: 14, idempotency_key: 'k' })]));
      assert.is((await store.getRunByKey('k'))?.seq, 14, 'its id and its key can be used again');
    },
  );

  opened(
    'events of old boots go with the runs of their time, and the current boot stays',
    async (store) => {
      await store.append({
        events: [boot(1, 'boot_0'), event(2, 'provider:x:boot_0', 1, { boot_id: 'boot_0' })],
        runs: [],
      });
      await store.append(finishedRuns(3, ['run_a']));
      await store.append({ events: [boot(6, 'boot_1')], runs: [] });
      await store.append(accepted(7, [run('run_b', { seq: 7 })]));
      await store.append({ events: [boot(8, 'boot_1', 2), boot(9, 'boot_2')], runs: [] });
      assert.equal(await store.prune(ALL), { runs: 1, events: 5, more: false });
      assert.equal(
        await kept(store),
        [['daemon:boot_1', 'run_b', 'daemon:boot_2'], ['run_b']],
        'the boot of an unfinished run stays',
      );
      await store.append({
        events: [event(10, 'run_b', 2)],
        runs: [run('run_b', { seq: 10, finished: true })],
      });
      await store.append({ events: [boot(11, 'boot_2', 2)], runs: [] });
      assert.equal(await store.prune(ALL), { runs: 1, events: 4, more: false });
      assert.equal(await kept(store), [['daemon:boot_2'], []]);
      assert.equal(await store.verify(), { ok: true, events: 2, problems: [] });
    },
  );

  opened(
    'streams of the current boot go with the runs of their time, once their machines are gone',
    async (store) => {
      const stream = (seq: number, name: string) =>
        event(seq, `${name}:boot_2:${seq}`, 1, { boot_id: 'boot_2' });
      await store.append({
        events: [boot(1, 'boot_2'), stream(2, 'engine'), stream(3, 'engine')],
        runs: [],
      });
      const title = event(4, 'conversation:run_a', 1, { boot_id: 'boot_2' });
      await store.append({ events: [title], runs: [] });
      await store.append(finishedRuns(5, ['run_a', 'run_b']));
      await store.append({ events: [stream(11, 'mcp'), boot(12, 'boot_2', 2)], runs: [] });
      const living = { streams: ['daemon:boot_2', 'engine:boot_2:3'], seq: 12 };
      const { at } = event(10, 's', 1);
      const [nothing, more] = [{ runs: 0, events: 0 }, { more: false }];
      assert.equal(await store.prune({ ...ALL, before_at: null, living }), { ...nothing, ...more });
      assert.equal(await store.prune({ ...ALL, before_at: at, living: { ...living, seq: 1 } }), {
        runs: 1,
        events: 3,
        ...more,
      });
      assert.equal(
        await store.prune({ ...ALL, before_at: at, living }),
        { runs: 0, events: 1, ...more },
        'engine 2; not engine 3, which lives, and not the server after the other run',
      );
      assert.equal((await kept(store))[0], [
        'daemon:boot_2',
        'engine:boot_2:3',
        'conversation:run_a',
        'run_b',
        'mcp:boot_2:11',
      ]);
      assert.equal(await store.prune({ ...ALL, living }), { runs: 1, events: 4, ...more });
      assert.equal((await kept(store))[0], [
        'daemon:boot_2',
        'engine:boot_2:3',
        'conversation:run_a',
      ]);
      assert.equal(await store.verify(), { ok: true, events: 4, problems: [] });
    },
  );

  opened('a log that is too large loses its oldest runs, and none that is newer', async (store) => {
    const names = Array.from({ length: 40 }, (_, index) => `run_${index + 10}`);
    const { events, runs } = finishedRuns(1, names);
    await store.append({
      events: events.map((one) => ({ ...one, data: ownText(one.seq, 20_000) })),
      runs,
    });
    await store.append({ events: [boot(121, 'boot_2')], runs: [] });
    for (let more = true; more; )
      ({ more } = await store.prune({ ...ALL, before_at: null, max_bytes: 1_000_000, limit: 5 }));
    const [, left] = await kept(store);
    assert.ok(left.length > 5 && left.length < 25, `${left.length} runs are left`);
    assert.equal(left, names.slice(-left.length).reverse());
    assert.ok((await store.verify()).ok);
  });

  opened('a run that went between two steps of a round is not counted again', async (store) => {
    const names = Array.from({ length: 40 }, (_, index) => `run_${index + 10}`);
    const { events, runs } = finishedRuns(1, names);
    await store.append({
      events: events.map((one) => ({ ...one, data: ownText(one.seq, 20_000) })),
      runs,
    });
    await store.append({ events: [boot(121, 'boot_2')], runs: [] });
    const query = { ...ALL, before_at: null, max_bytes: 1_000_000, limit: 3 };
    let first = await store.prune(query);
    // A step before it may only measure.
    while (first.runs === 0 && first.more) first = await store.prune(query);
    assert.equal(first, { runs: 3, events: 9, more: true });
    assert.equal((await store.removeRun('run_13')).runs, 1);
    let runsRemoved = 4;
    for (let more = true; more; ) {
      const step = await store.prune(query);
      runsRemoved += step.runs;
      ({ more } = step);
    }
    const [, left] = await kept(store);
    assert.equal(left, names.slice(runsRemoved).reverse());
    assert.ok(left.length > 5 && left.length < 25, `${left.length} runs are left`);
  });

  opened(
    'in a log that is too large, large runs go, also young ones, and no run of another provider',
    async (store) => {
      const names = (prefix: string, count: number) =>
        Array.from({ length: count }, (_, index) => `run_${prefix}${index + 10}`);
      const fill = async (first: number, ids: string[], provider: string, size: number) => {
        const { events, runs } = finishedRuns(first, ids, { provider });
        await store.append({
          events: events.map((one) => ({ ...one, data: ownText(one.seq, size) })),
          runs,
        });
        return first + events.length;
      };
      const modest = names('m', 20);
      const next = await fill(
        await fill(1, modest, 'modest', 10_000),
        names('g', 12),
        'greedy',
        100_000,
      );
      await store.append({ events: [boot(next, 'boot_2')], runs: [] });
      const rules = { large_bytes: 100_000, young_at: event(next - 1, 's', 1).at - 1e9 };
      const prune = async (max_bytes: number) => {
        for (;;) {
          const step = await store.prune({ ...ALL, before_at: null, max_bytes, ...rules });
          if (!step.more) return step.over === true;
        }
      };
      assert.not(await prune(2_000_000));
      const left = (await kept(store))[1];
      assert.equal(left.filter((id) => modest.includes(id)).length, modest.length);
      assert.ok(
        left.length < modest.length + 5 && left.length > modest.length,
        `${left.length - modest.length} large runs are left`,
      );
      assert.ok(await prune(400_000), 'all that could go is young');
      assert.equal((await kept(store))[1], modest.toReversed());
      assert.ok(await prune(250_000), 'beyond twice the bound young ones go too');
      const [, last] = await kept(store);
      assert.ok(last.length < modest.length && last.length > 5, `${last.length} are left`);
      assert.equal(last, modest.slice(-last.length).reverse());
      assert.ok((await store.verify()).ok);
    },
  );

  opened('no run goes for the bytes of one that is in progress', async (store) => {
    await store.append(finishedRuns(1, ['run_a', 'run_b']));
    await store.append({
      events: [
        event(7, 'run_c', 1, { type: 'run.accepted', data: { text: 'x'.repeat(2_000_000) } }),
      ],
      runs: [run('run_c', { seq: 7 })],
    });
    await store.append({ events: [boot(8, 'boot_2')], runs: [] });
    const query = { ...ALL, before_at: null, max_bytes: 1_000_000 };
    for (let more = true; more; ) ({ more } = await store.prune(query));
    assert.equal((await kept(store))[1], ['run_c', 'run_b', 'run_a']);
    await store.append({
      events: [event(9, 'run_c', 2), boot(10, 'boot_2', 2)],
      runs: [run('run_c', { seq: 9, finished: true })],
    });
    for (let more = true; more; )
      ({ more } = await store.prune({ ...query, large_bytes: 100_000 }));
    assert.equal((await kept(store))[1], ['run_b', 'run_a']);
  });

  opened('one finished run goes alone, with its key, and others never', async (store) => {
    await store.append({ events: [boot(1, 'boot_2')], runs: [] });
    await store.append(finishedRuns(2, ['run_a', 'run_b'], { idempotency_key: null }));
    await store.append(finishedRuns(8, ['run_c'], { idempotency_key: 'k' }));
    await store.append(accepted(11, [run('run_d', { seq: 11 })]));
    const nothing = { runs: 0, events: 0, more: false };
    assert.equal(await store.removeRun('run_d'), nothing, 'it is unfinished');
    assert.equal(await store.removeRun('run_x'), nothing, 'it is unknown');
    assert.equal(await store.removeRun('daemon:boot_2'), nothing, 'it is no run');
    assert.equal(await store.removeRun('run_c'), { runs: 1, events: 3, more: false });
    assert.equal(await store.removeRun('run_c'), nothing, 'it has gone');
    assert.is(await store.getRun('run_c'), null);
    assert.is(await store.getRunByKey('k'), null);
    assert.equal(await store.removeRun('run_a'), { runs: 1, events: 3, more: false });
    assert.equal(await kept(store), [
      ['daemon:boot_2', 'run_b', 'run_d'],
      ['run_d', 'run_b'],
    ]);
    assert.equal(await store.verify(), { ok: true, events: 5, problems: [] });
    await store.append({
      events: [event(12, 'run_d', 2)],
      runs: [run('run_d', { seq: 12, finished: true })],
    });
    assert.equal(await store.removeRun('run_d'), nothing, 'it has the last event of the log');
    assert.is((await store.getRun('run_d'))?.run_id, 'run_d');
    await store.append(accepted(13, [run('run_e', { seq: 13 })]));
    assert.is((await store.removeRun('run_d')).runs, 1);
    assert.equal(await store.verify(), { ok: true, events: 5, problems: [] });
  });

  opened('a run whose time was over in a leap of the clock stays', async (store) => {
    const day = 86_400_000;
    const { events, runs } = finishedRuns(1, ['run_a', 'run_b']);
    const days = [0, 0, 0, -400, -400, -400];
    await store.append({
      events: events.map((one, index) => ({ ...one, at: 1e12 + (days[index] ?? 0) * day })),
      runs,
    });
    await store.append({ events: [{ ...boot(7, 'boot_2'), at: 1e12 + day }], runs: [] });
    const prune = async (now_day: number) => {
      const now = 1e12 + now_day * day;
      const clock = { now, even_since: 1e12 + day };
      for (let more = true; more; )
        ({ more } = await store.prune({ ...ALL, before_at: now - 30 * day, clock }));
      return (await kept(store))[1];
    };
    assert.equal(await prune(2), ['run_b', 'run_a']);
    assert.equal(await prune(30.5), ['run_b'], 'the one from the right clock is old');
    assert.equal(await prune(32), []);
  });

  opened(
    'a log without its old history opens, continues, and reports where it begins',
    async (store, subject) => {
      await store.append(finishedRuns(1, ['run_a', 'run_b']));
      await store.append({ events: [boot(7, 'boot_2')], runs: [] });
      await store.prune(ALL);
      await store.close();
      const again = subject.again();
      const { first_seq, last_seq } = await again.open();
      assert.equal([first_seq, last_seq], [7, 7]);
      assert.equal(
        (await again.readAll(1, 10)).map(({ seq }) => seq),
        [7],
      );
      assert.equal(await again.readStream('run_a', 1, 10), []);
      await again.append(accepted(8, [run('run_c', { seq: 8 })]));
      assert.equal(await again.verify(), { ok: true, events: 2, problems: [] });
      await again.close();
    },
  );
}

/** Texts that a careless store changes or cuts. */
const TEXTS = [
  '',
  'äöü €',
  '日本語',
  '👩‍👩‍👧',
  '\u0000',
  'a\u0000b',
  '\ud800',
  'x\udfffy',
  '\u2028\u2029',
  '\ufeff',
  '"\\/\b\f\n\r\t',
  "'; drop table events; --",
  '\u007f\u0080\uffff',
];

function testContents(opened: Opened): void {
  opened('any text survives, NUL characters and lone surrogates too', async (store) => {
    const data = { texts: TEXTS, ...Object.fromEntries(TEXTS.map((text, index) => [text, index])) };
    const row = run('run_1', {
      provider: 'a\u0000\ud800',
      model: '\udfff',
      request_digest: '\ud800',
      record: { texts: TEXTS },
    });
    await store.append({ events: [event(1, 'run_1', 1, { data })], runs: [row] });
    assert.equal((await store.readAll(1, 1))[0]?.data, data);
    assert.equal(await store.getRun('run_1'), row);
    assert.equal(await store.listRuns({ limit: 1, provider: 'a\u0000\ud800' }), [row]);
    assert.equal((await store.verify()).problems, []);
  });

  opened('names of objects that mean something to the language survive', async (store) => {
    const data = JSON.parse('{"__proto__":{"a":1},"constructor":2,"toString":3}') as Record<
      string,
      unknown
    >;
    await store.append({ events: [event(1, 's', 1, { data })], runs: [] });
    assert.is(JSON.stringify((await store.readAll(1, 1))[0]?.data), JSON.stringify(data));
  });

  opened('a large event survives, and does not keep others out', async (store) => {
    const text = 'grüße\u0000'.repeat(1_000_000);
    await store.append({
      events: [event(1, 'run_1', 1, { data: { text } }), event(2, 's', 1)],
      runs: [run('run_1', { record: { text } })],
    });
    const [large] = await store.readAll(1, 1);
    assert.ok(large?.data.text === text);
    assert.ok((await store.getRun('run_1'))?.record?.text === text);
    await store.append({
      events: [event(3, 'run_1', 2)],
      runs: [run('run_1', { finished: true, record: { text }, seq: 3 })],
    });
    assert.ok(
      Buffer.from((await store.readRecord('run_1')) ?? []).equals(
        Buffer.from(JSON.stringify({ text })),
      ),
    );
    assert.equal(
      (await everything(store)).map(({ seq }) => seq),
      [1, 2, 3],
    );
  });

  opened('large events come in pages that end only with the log', async (store) => {
    const text = 'x'.repeat(1024 * 1024);
    for (let seq = 1; seq <= 20; seq += 1)
      await store.append(series(seq, 1, 's', { data: { text } }));
    const seqs: number[] = [];
    for (
      let page = await store.readStream('s', 1, 1000);
      page.length > 0;
      page = await store.readStream('s', seqs.length + 1, 1000)
    )
      seqs.push(...page.map(({ seq }) => seq));
    assert.equal(
      seqs,
      Array.from({ length: 20 }, (_, index) => index + 1),
    );
  });

  opened('changing values after a write or a read does not change the log', async (store) => {
    const list = [1];
    const appended = store.append({
      events: [event(1, 'run_1', 1, { data: { list } })],
      runs: [run('run_1', { record: { list } })],
    });
    list.push(2);
    await appended;
    for (let time = 1; time <= 2; time += 1) {
      const kept = [
        (await store.readAll(1, 1))[0]?.data.list,
        (await store.getRun('run_1'))?.record?.list,
      ] as number[][];
      assert.equal(kept, [[1], [1]]);
      for (const one of kept) one.push(3);
    }
  });

  opened('a whole log passes its check', async (store) => {
    await store.append({
      events: [event(1, 'run_1', 1), event(2, 'run_2', 1), event(3, 'run_1', 2)],
      runs: [run('run_1', { seq: 3 }), run('run_2', { seq: 2 })],
    });
    assert.equal(await store.verify(), { ok: true, events: 3, problems: [] });
  });
}

function testLife(opened: Opened, test: Test, make: () => Subject, shared: boolean): void {
  test('a new log is empty', async () => {
    const { store, remove } = make();
    try {
      const { first_seq, last_seq, last_boot_id } = await store.open();
      assert.equal([first_seq, last_seq, last_boot_id], [1, 0, null]);
      assert.equal(
        [
          await store.readAll(1, 10),
          await store.listRuns({ limit: 10 }),
          await store.unfinishedRuns(),
        ],
        [[], [], []],
      );
      assert.equal(await store.countRuns(), { finished: 0, unfinished: 0 });
      assert.equal(await store.verify(), { ok: true, events: 0, problems: [] });
    } finally {
      await store.close();
      await remove();
    }
  });

  opened('a log is found again as it was left, and goes on', async (store, subject) => {
    const boots = ['boot_1', 'boot_2'].map((boot_id, index) =>
      event(index + 1, `daemon:${boot_id}`, 1, { type: 'daemon.boot_started', boot_id }),
    );
    await store.append({
      events: [...boots, event(3, 'run_1', 1), event(4, 'run_2', 1)],
      runs: [run('run_1', { seq: 3 }), run('run_2', { seq: 4, finished: true, created_at: 2000 })],
    });
    const before = await everything(store);
    await store.close();
    const again = subject.again();
    const { first_seq, last_seq, last_boot_id } = await again.open();
    assert.equal([first_seq, last_seq, last_boot_id], [1, 4, 'boot_2']);
    assert.equal(await everything(again), before);
    assert.equal(await again.unfinishedRuns(), ['run_1']);
    assert.equal(
      (await again.listRuns({ limit: 9 })).map(({ run_id }) => run_id),
      ['run_2', 'run_1'],
    );
    if (!shared)
      assert.is(
        await codeOf(again.append({ events: [event(4, 'run_1', 2)], runs: [] })),
        'store_conflict',
      );
    await again.append({ events: [event(5, 'run_1', 2)], runs: [] });
    assert.ok((await again.verify()).ok);
    await again.close();
  });

  opened('a close lets earlier calls finish, and refuses later ones', async (store, subject) => {
    const asked = store.append(series(1, 100));
    const closed = store.close();
    assert.is(await codeOf(store.append(series(101, 1))), 'not_ready');
    await asked;
    await closed;
    for (const late of [
      store.append(series(101, 1)),
      store.readAll(1, 1),
      store.readStream('s', 1, 1),
      store.getRun('r'),
      store.getRunByKey('k'),
      store.runsAt(1, 1),
      store.runBounds('boot_1', 1, 1),
      store.startedStreams(1, 1, 1),
      store.reserve(),
      store.prune(ALL),
      store.listRuns({ limit: 1 }),
      store.unfinishedRuns(),
      store.countRuns(),
      store.verify(),
    ]) {
      assert.is(await codeOf(late), 'not_ready');
    }
    const again = subject.again();
    assert.is((await again.open()).last_seq, 100);
    await again.close();
  });

  opened('a store that is closed can be opened again', async (store) => {
    await store.append(series(1, 2));
    await store.close();
    await store.close();
    assert.is((await store.open()).last_seq, 2);
    await store.append(series(3, 1));
    assert.is((await everything(store)).length, 3);
  });

  test('calls before the open are refused, and a close before it does no harm', async () => {
    const { store, remove } = make();
    assert.is(await codeOf(store.append(series(1, 1))), 'not_ready');
    assert.is(await codeOf(store.readAll(1, 1)), 'not_ready');
    await store.close();
    await remove();
  });
}

/** Data with a text that no other event has. */
function ownText(seq: number, size: number): { text: string } {
  return { text: `${seq} ${'x'.repeat(size)}` };
}
