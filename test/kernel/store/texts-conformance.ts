import fc from 'fast-check';
import * as assert from 'uvu/assert';
import { TEXTS_FORMAT } from '../../../machines/events.ts';
import type { EventStore, RunRow } from '../../../src/kernel/store/port.ts';
import { SHORT_CHARACTERS } from '../../../src/kernel/store/short-run.ts';
import type { Subject } from './conformance.ts';
import { codeOf, event, run } from './samples.ts';

/** The texts of a log that is closed. */
export interface TextsOf {
  all(): Promise<{ text: string; users: number }[]>;
  /** Changes or deletes the texts that are like a pattern. */
  change(like: string, to: string | null): Promise<void>;
  /** The format of the log. */
  format(): Promise<number>;
}

type Opened = (name: string, work: (store: EventStore, subject: Subject) => Promise<void>) => void;
type Work = (store: EventStore, texts: TextsOf, subject: Subject) => Promise<void>;

const ALL = {
  before_at: Number.MAX_SAFE_INTEGER,
  max_bytes: null,
  keep_boot: 'boot_2',
  limit: 100,
};

/** A text that is long enough to be stored once. */
const long = (name: string) => `${name} ${'x'.repeat(300)}`;
const literal = (text: string) => JSON.stringify(text);
const message = (text: string, role = 'user') => ({ role, content: [{ type: 'text', text }] });

/** What a store promises of texts that several rows have. */
export function testTexts(each: Opened): void {
  const opened = (name: string, work: Work) =>
    each(name, async (store, subject) => {
      if (subject.texts !== undefined) await work(store, subject.texts, subject);
    });

  opened('a text is stored once, with the number of its users', async (store, texts) => {
    await finish(store, 1, 'run_a', [message(long('one'))], long('one'));
    assert.equal(await usersOf(store, texts), { [literal(long('one'))]: 2 });
    await finish(store, 3, 'run_b', [message(long('one'))], long('two'));
    assert.equal(await usersOf(store, texts), {
      [literal(long('one'))]: 4,
      [literal(long('two'))]: 1,
    });
    assert.is((await store.getRun('run_b'))?.record?.prompt, long('two'));
    assert.equal((await store.readStream('run_b', 1, 9))[0]?.data, {
      messages: [message(long('one'))],
    });
  });

  opened('the last user takes its texts along', async (store, texts) => {
    const list = Array.from({ length: 60 }, (_, index) => message(long(`turn ${index}`)));
    await finish(store, 1, 'run_a', list, long('turn 0'));
    await finish(store, 3, 'run_b', list.slice(0, 40), long('own'));
    await store.append({ events: [event(5, 'daemon:boot_2', 1, { boot_id: 'boot_2' })], runs: [] });
    const both = await usersOf(store, texts);
    assert.is(both[literal(long('turn 0'))] ?? 0, 2, 'a group, and a record');
    assert.is((await store.removeRun('run_a')).runs, 1);
    const left = await usersOf(store, texts);
    assert.is(left[literal(long('turn 0'))], 1);
    assert.is(left[literal(long('turn 50'))], undefined);
    assert.equal((await store.readStream('run_b', 1, 1))[0]?.data, { messages: list.slice(0, 40) });
    assert.ok((await store.verify()).ok);
    for (let more = true; more; ) ({ more } = await store.prune(ALL));
    assert.equal(await usersOf(store, texts), {});
    assert.ok((await store.verify()).ok);
  });

  opened('a row that is replaced gives its texts back', async (store, texts) => {
    await finish(store, 1, 'run_a', [message('short')], long('first'));
    await store.append({
      events: [event(3, 'run_a', 3)],
      runs: [ended('run_a', 3, [message('short')], long('second'))],
    });
    await store.append({ events: [event(4, 'daemon:boot_2', 1, { boot_id: 'boot_2' })], runs: [] });
    await store.prune({ ...ALL, before_at: null });
    assert.equal(await usersOf(store, texts), { [literal(long('second'))]: 1 });
    assert.ok((await store.verify()).ok);
  });

  opened(
    'the first reference raises the format of the log, and nothing before',
    async (...args) => {
      const [store, texts] = args;
      await finish(store, 1, 'run_a', [message('short')], 'short');
      await store.close();
      const before = await texts.format();
      assert.ok(before < TEXTS_FORMAT, `${before}`);
      await store.open();
      await finish(store, 3, 'run_b', [message(long('one'))], 'short');
      await store.close();
      assert.is(await texts.format(), TEXTS_FORMAT);
      await store.open();
      assert.is((await store.readAll(1, 99)).length, 4);
    },
  );

  for (const [how, to] of [
    ['changed', '"another"'],
    ['missing', null],
  ] as const)
    opened(
      `a text that is ${how} is named with each run that needs it, and hides no other`,
      async (...args) => {
        const [store, texts] = args;
        await finish(store, 1, 'run_a', [message(long('bad'))], 'a');
        await finish(store, 3, 'run_b', [message(long('bad')), message(long('good'))], 'b');
        await finish(store, 5, 'run_c', [message(long('good'))], 'c');
        await store.close();
        await texts.change('"bad %', to);
        await store.open();
        const listed = await store.listRuns({ limit: 9 });
        assert.equal(
          listed.map((row) => ['damage' in row, row.run_id]),
          [
            [false, 'run_c'],
            [true, 'run_b'],
            [true, 'run_a'],
          ],
        );
        assert.is(await codeOf(store.readStream('run_b', 1, 9)), 'store_corrupt');
        assert.is((await store.readStream('run_c', 1, 9)).length, 2);
        const short = await store.listRuns({ limit: 9, short: true });
        assert.equal(
          short.map((row) => ('damage' in row ? row.damage : row.record?.prompt)),
          ['c', 'b', 'a'],
          'a short list does not need the text',
        );
        const { problems } = await store.verify();
        for (const words of [
          'The event 1 ',
          'The event 3 ',
          'The record of the run run_a uses a text that is missing or damaged.',
          'The record of the run run_b uses a text that is missing or damaged.',
        ])
          assert.match(problems.join('\n'), words);
        const slow = await roundOf(store);
        assert.match(slow, 'The record of the run run_b uses a text');
        assert.not.match(slow, 'run_c');
      },
    );

  opened('a list of short runs needs no long text at all', async (store, texts) => {
    const messages = [message(long('first')), message(long('no'), 'system'), message(long('last'))];
    await finish(store, 1, 'run_a', messages, long('asked'));
    await store.close();
    await texts.change('%', null);
    await store.open();
    const [row] = await store.listRuns({ limit: 1, short: true });
    assert.ok(row !== undefined && 'record' in row, JSON.stringify(row));
    assert.equal(row.record, {
      prompt: long('asked').slice(0, SHORT_CHARACTERS),
      output: 'o',
      seq: 2,
      shortened: true,
    });
    assert.equal(row.opening, { question: long('first').slice(0, SHORT_CHARACTERS), questions: 2 });
    assert.is(await codeOf(store.getRun('run_a')), 'store_corrupt', 'the whole run needs them');
  });

  opened(
    'the usage of a conversation is a sum of its ended runs, without a text',
    async (...args) => {
      const [store, texts] = args;
      const place = { conversation: 'run_a' };
      await finish(store, 1, 'run_a', [message(long('a'))], long('p'), {
        usage: { input_tokens: 5, output_tokens: 2, cached_tokens: 3 },
      });
      await finish(
        store,
        3,
        'run_b',
        [],
        'p',
        { usage: { input_tokens: 7, output_tokens: null } },
        place,
      );
      await finish(store, 5, 'run_x', [], 'p', { usage: { input_tokens: 9, output_tokens: 9 } });
      await store.append({
        events: [event(7, 'run_c', 1, { type: 'run.accepted' })],
        runs: [run('run_c', { seq: 7, ...place })],
      });
      await store.close();
      await texts.change('%', null);
      await store.open();
      assert.equal(await store.conversationUsage('run_a'), {
        runs: 2,
        input_tokens: 12,
        output_tokens: 2,
        cached_tokens: 3,
        unknown: 1,
      });
      const none = { runs: 0, input_tokens: 0, output_tokens: 0, cached_tokens: 0, unknown: 0 };
      assert.equal(await store.conversationUsage('run_b'), none, 'a later run names none');
    },
  );

  opened(
    'a record has the messages of its first event, also where that cannot be read',
    async (...args) => {
      const [store, texts] = args;
      const long_ones = Array.from({ length: 30 }, (_, index) => message(long(`turn ${index}`)));
      const short_one = [message('"messages":"\\u0000"'), message('short')];
      const asks = async (seq: number, run_id: string, messages: unknown[]) => {
        const request = { messages, model: 'm'.repeat(600) };
        const first = { type: 'run.accepted', data: { run_id, request } };
        const events = [event(seq, run_id, 1, first)];
        await store.append({ events, runs: [run(run_id, { seq })] });
      };
      const ends = (seq: number, run_id: string, messages: unknown[]) =>
        store.append({
          events: [event(seq, run_id, 2)],
          runs: [ended(run_id, seq, messages, 'p', {}, { repeats: true })],
        });
      const messagesOf = async (run_id: string) => (await store.getRun(run_id))?.record?.messages;
      for (const [index, messages] of [long_ones, short_one].entries()) {
        await asks(1 + 2 * index, `run_${index}`, messages);
        await ends(2 + 2 * index, `run_${index}`, messages);
        assert.equal(await messagesOf(`run_${index}`), messages);
      }
      const keys = Object.keys((await store.getRun('run_0'))?.record ?? {});
      assert.equal(keys, ['prompt', 'messages', 'output', 'seq'], 'in their order');
      assert.is((await usersOf(store, texts))[literal(long('turn 3'))], 1, 'in one group');
      await asks(5, 'run_bad', long_ones);
      await store.close();
      await texts.change('%"model":%', null);
      await store.open();
      await ends(6, 'run_bad', long_ones);
      assert.equal(await messagesOf('run_bad'), long_ones);
      assert.equal(await messagesOf('run_0'), long_ones);
    },
  );

  opened('any content comes back, and a long list is stored in groups', async (store) => {
    let seq = 1;
    const value = fc.oneof(
      fc.jsonValue({ maxDepth: 4 }),
      fc.string({ minLength: 200, unit: 'binary' }),
    );
    const data = fc.dictionary(fc.string(), fc.array(value, { maxLength: 30 }));
    await fc.assert(
      fc.asyncProperty(data, async (found) => {
        const given = JSON.parse(JSON.stringify({ ...found, ...ODD })) as Record<string, unknown>;
        await store.append({ events: [event(seq, 's', seq, { data: given })], runs: [] });
        const text = JSON.stringify((await store.lastEvent('s'))?.data);
        assert.is(text, JSON.stringify(given));
        seq += 1;
      }),
      { numRuns: 25 },
    );
    assert.ok((await store.verify()).ok);
  });
}

/** What a careless form of references would change. */
const ODD = {
  lone: `\ud800${'x'.repeat(300)}`,
  nul: `\0\t\n"\\${'y'.repeat(300)}\\`,
  like: `\t["${'A'.repeat(32)}"]`.repeat(10),
  list: [`\t["${'A'.repeat(32)}"]`],
  numbers: Array.from({ length: 300 }, (_, index) => index / 7),
  empty: [{}, [], '', null, true, 1e300, 5e-324],
};

function ended(
  run_id: string,
  seq: number,
  messages: unknown[],
  prompt: string,
  more: object = {},
  place: Partial<RunRow> = {},
): RunRow {
  const record = { prompt, messages, output: 'o', seq, ...more };
  return run(run_id, { seq, state: 'completed', finished: true, record, ...place });
}

/** A run of two events that ends at once. */
async function finish(
  store: EventStore,
  seq: number,
  run_id: string,
  messages: unknown[],
  prompt: string,
  more: object = {},
  place: Partial<RunRow> = {},
): Promise<void> {
  await store.append({
    events: [
      event(seq, run_id, 1, { type: 'run.accepted', data: { messages } }),
      event(seq + 1, run_id, 2),
    ],
    runs: [ended(run_id, seq + 1, messages, prompt, more, place)],
  });
}

/** The users of each text that is a string, as JSON. */
async function usersOf(store: EventStore, texts: TextsOf): Promise<Record<string, number>> {
  await store.close();
  const all = await texts.all();
  await store.open();
  return Object.fromEntries(
    all.filter(({ text }) => text.startsWith('"')).map(({ text, users }) => [text, users]),
  );
}

async function roundOf(store: EventStore): Promise<string> {
  for (let restart = true; ; restart = false) {
    const { done, report } = await store.verifyPart(1, restart);
    if (done) return report.problems.join('\n');
  }
}
