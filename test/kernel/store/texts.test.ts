import { statSync } from 'node:fs';
import Database from 'better-sqlite3';
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { RunRow } from '../../../src/kernel/store/port.ts';
import {
  asStored,
  compactEvent,
  compactRun,
  digestOf,
  expand,
  memberOf,
  referencesIn,
} from '../../../src/kernel/store/texts.ts';
import { event, type Place, placed, run } from './samples.ts';
import { textsIn } from './texts-in.ts';

test('what is put apart comes back to each character, from JSON of any form', () => {
  const string = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.string({ minLength: 300, maxLength: 600 }),
  );
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: 'medium' },
      string,
      fc.double(),
      fc.constantFrom(null, true, -0, '\t["', '"', '\\', '\ud800'),
      fc.array(tie('value'), { maxLength: 40 }),
      fc.dictionary(string, tie('value')),
    ),
  }));
  fc.assert(
    fc.property(fc.dictionary(string, value), (made) => {
      for (const compact of [compactEvent, compactRun]) {
        const data = JSON.stringify({ record: made, ...made });
        const { text, texts } = compact(data);
        assert.is(
          expand(text, (digest) => texts.get(digest) ?? ''),
          data,
        );
        assert.type(JSON.parse(text), 'object');
        for (const [digest, one] of texts) assert.is(digestOf(one), digest);
      }
    }),
    { numRuns: 200 },
  );
});

test('a value of any depth, and a list of any length, costs no stack', () => {
  let deep: unknown = 'x'.repeat(300);
  for (let level = 0; level < 4000; level += 1) deep = level % 2 === 0 ? [deep] : { deep };
  const data = JSON.stringify({ deep, long: Array.from({ length: 100_000 }, (_, at) => at) });
  const { text, texts } = compactEvent(data);
  assert.ok(text.length < 1000, `${text.length} characters`);
  assert.is(
    expand(text, (digest) => texts.get(digest) ?? ''),
    data,
  );
});

test('names that indexes read stay in a row, whatever their length', () => {
  const long = 'm'.repeat(5000);
  const row = { model: long, origin: long, conversation: long, record: { prompt: long }, seq: 1 };
  const { text, texts } = compactRun(JSON.stringify(row));
  const { record, ...rest } = JSON.parse(text);
  assert.equal(rest, { model: long, origin: long, conversation: long, seq: 1 });
  assert.is(texts.size, 1);
  assert.is(memberOf(text, 'seq'), '1');
  assert.is(memberOf(text, 'record'), `{"prompt":\t${JSON.stringify(record.prompt)}}`);
});

test('a list with another middle or another beginning shares nearly all of its texts', () => {
  const turns = (count: number) =>
    Array.from({ length: count }, (_, at) => ({ role: 'user', text: `${at} ${'t'.repeat(5000)}` }));
  const sizeOf = (list: unknown[], known: ReadonlySet<string>) => {
    const { text, texts } = compactEvent(JSON.stringify({ list }));
    let size = text.length;
    for (const [digest, one] of texts) if (!known.has(digest)) size += one.length;
    return { size, known: new Set([...known, ...texts.keys()]) };
  };
  const all = turns(1000);
  const { known } = sizeOf(all, new Set());
  const fresh = { role: 'user', text: `new ${'n'.repeat(5000)}` };
  for (const [what, list] of [
    ['one more', [...all, fresh]],
    ['another in the middle', all.with(500, fresh)],
    ['another first one', all.with(0, fresh)],
    ['one more at the beginning', [fresh, ...all]],
    ['none at the beginning', [...all.slice(10), fresh]],
  ] as const) {
    const { size } = sizeOf([...list], known);
    assert.ok(size > 5000 && size < 9000, `${what}: ${size} characters`);
  }
});

test('references that never end, or to what is no reference, are damage', () => {
  const reference = (digest: string) => `\t["${digest}"]`;
  const again = 'A'.repeat(32);
  const twice = (digest: string) => `[${reference(digest)},${reference(digest)}]`;
  const bomb = (digest: string) => {
    const level = Number(digest.slice(0, 2));
    return level === 60
      ? '"x"'
      : twice(
          String(level + 1)
            .padStart(2, '0')
            .padEnd(32, '_'),
        );
  };
  for (const [text, read] of [
    [reference(again), () => reference(again)],
    ['\t["short"]', () => ''],
    ['\tx', () => ''],
    [twice('00'.padEnd(32, '_')), bomb],
  ] as [string, (digest: string) => string][])
    assert.throws(
      () => expand(text, read),
      ({ code }: { code: string }) => code === 'store_corrupt',
    );
  assert.equal(referencesIn(`[${reference(again)},${reference(again)}]`), [again]);
  assert.equal(asStored('{}').texts.size, 0);
});

test(
  'the row of a run that lost a reference is made again, and the next open counts its texts',
  placed(async (place) => {
    const long = `prompt ${'x'.repeat(300)}`;
    const row = (seq: number) =>
      run('run_a', { seq, state: 'completed', finished: true, record: { prompt: long, seq } });
    place.project = async () => row(2);
    const store = place.store();
    await store.open();
    const events = [event(1, 'run_a', 1, { type: 'run.accepted' }), event(2, 'run_a', 2)];
    await store.append({ events, runs: [row(2)] });
    await store.close();
    const db = new Database(place.database);
    db.exec(`update runs set data = replace(data, char(9) || '["', char(9) || '["_')`);
    db.close();
    await store.open();
    assert.is((await store.getRun('run_a'))?.record?.prompt, long);
    assert.match((await store.verify()).problems.join(), 'The counts of 1 texts do not agree');
    await store.close();
    await store.open();
    assert.equal((await store.verify()).problems, []);
    await store.close();
    assert.equal(
      (await textsIn(place).all()).map(({ users }) => users),
      [1],
    );
  }),
);

const TURNS = 200;

/** Stateless turns of 5 kB of English, as the daemon records them. Answers the new characters. */
async function converse(place: Place, systemOf: (turn: number) => string): Promise<number> {
  const store = place.store();
  await store.open();
  const messages: unknown[] = [];
  let [seq, fresh, system] = [1, 0, ''];
  for (let turn = 0; turn < TURNS; turn += 1) {
    const prompt = english(turn, 4500);
    const output = english(turn + TURNS, 500);
    fresh +=
      prompt.length + output.length + (systemOf(turn) === system ? 0 : systemOf(turn).length);
    system = systemOf(turn);
    messages.push({ role: 'user', content: [{ type: 'text', text: prompt }] });
    const run_id = `run_${String(turn).padStart(26, '0')}`;
    const sent = [{ role: 'system', content: system }, ...messages];
    const request = { provider: 'fake', model: 'm', cloud: false, messages: sent, seed: turn };
    const row: RunRow = run(run_id, {
      seq: seq + 3,
      state: 'completed',
      finished: true,
      record: { id: run_id, prompt, system, messages: sent, output, usage: {}, seq: seq + 3 },
    });
    const of = (version: number, type: string, data: Record<string, unknown>) =>
      event(seq + version - 1, run_id, version, { type, data });
    await store.append({ events: [of(1, 'run.accepted', { run_id, request })], runs: [] });
    await store.append({
      events: [
        of(2, 'run.started', { attempt: 1 }),
        of(3, 'run.output_appended', { text: output, tokens: 99 }),
        of(4, 'run.completed', { finish_reason: 'stop' }),
      ],
      runs: [row],
    });
    seq += 4;
    messages.push({ role: 'assistant', content: [{ type: 'text', text: output }] });
  }
  assert.equal((await store.searchRuns({ terms: ['turn199'], limit: 9 })).length, 1);
  assert.is(
    (await store.getRun(`run_${'199'.padStart(26, '0')}`))?.record?.prompt,
    english(199, 4500),
  );
  assert.ok((await store.verify()).ok);
  await store.close();
  return fresh;
}

const VOWELS = ['a', 'e', 'i', 'o', 'u', 'ea', 'ou', 'ai'];
/** Words of a language: few of them are frequent. */
function english(turn: number, length: number): string {
  let [text, state] = [`turn${turn}`, turn + 1];
  while (text.length < length) {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) | 0;
    const rank = Math.floor(((state >>> 8) / 2 ** 24) ** 5 * 2000);
    text += ` ${String.fromCharCode(97 + (rank % 26))}${VOWELS[rank % 8]}${rank.toString(36)}n`;
  }
  return text.slice(0, length);
}

for (const [what, systemOf] of [
  ['one system text', () => 'Be brief.'],
  ['another system text in each turn', (turn: number) => `It is ${turn}. ${'rule '.repeat(200)}`],
] as const)
  test(
    `a log of ${TURNS} turns of 5 kB with ${what} is at most 2.5 times the new text`,
    placed(async (place) => {
      const fresh = await converse(place, systemOf);
      const ratio = statSync(place.database).size / fresh;
      assert.ok(ratio > 1 && ratio < 2.5, `${ratio.toFixed(2)} times`);
      const db = new Database(place.database, { readonly: true });
      const [rows, texts] = ['events', 'texts'].map((name) =>
        db.prepare(`select count(*) from ${name}`).pluck().get(),
      );
      db.close();
      assert.is(rows, TURNS * 4);
      assert.ok(Number(texts) < TURNS * 7, `${texts} texts`);
    }),
  );

test.run();
