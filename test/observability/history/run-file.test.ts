import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { statePath } from '../../../machines/step.ts';
import { checkRunEvent } from '../../../src/contract/events.ts';
import { SvcError } from '../../../src/errors.ts';
import { streamOf } from '../../../src/kernel/pages.ts';
import type { StoredEvent } from '../../../src/kernel/store/port.ts';
import { digestOf, exportRun } from '../../../src/observability/history/export.ts';
import { foldRunFile, parseRunFile } from '../../../src/observability/history/run-file.ts';
import { Chain } from '../../../src/observability/history/why.ts';
import { runRecord } from '../../../src/runtime/runs/record.ts';
import { makeHistory } from '../../helpers/history.ts';

/** An exported run folds to the same states, and an untrusted file is checked. */

const { store, runtime, ids } = await makeHistory();
const all = Object.values(ids);

async function written(id: string, redact = false): Promise<string> {
  let text = '';
  for await (const piece of exportRun(store, id, { redact, version: '1.2.3', now: 0 }))
    text += piece;
  return text;
}

interface Doc {
  // biome-ignore lint/suspicious/noExplicitAny: a test changes whatever it likes
  [name: string]: any;
  events: StoredEvent[];
}

/** The file with a change, and a matching digest. */
async function changed(change: (doc: Doc) => void, id = ids.completed): Promise<string> {
  const doc = JSON.parse(await written(id)) as Doc;
  change(doc);
  const { digest: _, ...rest } = doc;
  return JSON.stringify({ ...rest, digest: digestOf(rest) });
}

function problemOf(text: string): string {
  try {
    foldRunFile(parseRunFile(text));
    return '';
  } catch (error) {
    assert.instance(error, SvcError);
    assert.is((error as SvcError).code, 'export_invalid', (error as SvcError).message);
    return (error as SvcError).message;
  }
}

async function paths(events: AsyncIterable<StoredEvent> | StoredEvent[]): Promise<string[]> {
  const chain = new Chain();
  const found: string[] = [];
  for await (const event of events) {
    chain.add(event);
    found.push(chain.snapshot === undefined ? '' : statePath(chain.snapshot));
  }
  return found;
}

test('an exported run folds to the same states, at each of its events', async () => {
  for (const id of all) {
    const file = parseRunFile(await written(id));
    const { snapshot, events } = foldRunFile(file);
    assert.ok(snapshot);
    assert.equal(runRecord(snapshot, events.at(-1)?.seq ?? 0), await runtime.runs.get(id));
    for (const { seq } of file.events) {
      const then = foldRunFile(file, seq);
      assert.equal(then.snapshot && runRecord(then.snapshot, seq), {
        ...(await runtime.history.runAt(id, seq)),
        queue_position: null,
      });
    }
    assert.equal([file.run_id, file.redacted, file.program_version], [id, false, '1.2.3']);
  }
});

test('an export has the daemon events of its run, from every boot of the run', async () => {
  const doc = JSON.parse(await written(ids.cut)) as Doc;
  const events = doc.daemon_events as StoredEvent[];
  assert.equal([...new Set(events.map(({ boot_id }) => boot_id))], ['boot_1', 'boot_2']);
  assert.ok(events.some(({ type }) => type === 'daemon.boot_started'));
  assert.ok(events.every(({ data }) => data.run_id === undefined || data.run_id === ids.cut));
  assert.equal(doc.boot, {
    boot_id: 'boot_1',
    version: '0',
    at: new Date(events[0]?.at ?? 0).toISOString(),
  });
});

test('a redacted export has no text of users, and folds to the same states', async () => {
  for (const id of all) {
    const text = await written(id, true);
    for (const word of [
      'secret',
      'wait',
      'fail secretly',
      'like',
      'half',
      'three',
      'again',
      'somebody',
      'the last',
    ])
      assert.not.ok(text.includes(word), `${word} of ${id}`);
    const file = parseRunFile(text);
    assert.is(file.redacted, true);
    assert.equal(await paths(file.events), await paths(streamOf(store, id)));
    const outputs = file.events.filter(({ type }) => type === 'run.output_appended');
    assert.ok(
      outputs.every(({ data }) => (data.token_ids as number[]).every((token) => token === 0)),
    );
  }
});

test('a file that is no export is refused with the reason', async () => {
  const whole = await written(ids.completed);
  const cases: [string, RegExp][] = [
    ['', /not JSON/],
    ['null', /not a JSON object/],
    ['[]', /not a JSON object/],
    ['{}', /not an exported run/],
    [whole.slice(0, -10), /not JSON, or was cut off/],
    [whole.replace('"version":1', '"version":2'), /newer version/],
    [whole.replace('"version":1', '"version":"1"'), /does not exist/],
    [whole.replace('secret prompt', 'another prompt'), /digest/],
    [whole.replace(/"digest":"\w+"/, '"digest":null'), /digest/],
    [`${'['.repeat(1e6)}${']'.repeat(1e6)}`, /nested deeper/],
    [`{"a":${'{"a":'.repeat(100)}1${'}'.repeat(100)}}`, /nested deeper/],
    [`"${'['.repeat(100)}"`, /not a JSON object/],
  ];
  for (const [text, message] of cases) assert.match(problemOf(text), message, text.slice(0, 60));
});

test('the error names events that are wrong, missing, doubled or out of order', async () => {
  const at = (index: number, fields: object) => (doc: Doc) =>
    Object.assign(doc.events[index] ?? {}, fields);
  const data = (index: number, fields: object) => (doc: Doc) =>
    Object.assign(doc.events[index]?.data ?? {}, fields);
  const cases: [(doc: Doc) => void, RegExp][] = [
    [(doc) => doc.events.splice(0, doc.events.length), /holds no events/],
    [(doc) => doc.events.splice(1, 1), /number 2 has the version 3/],
    [(doc) => doc.events.reverse(), /number 1 has the version/],
    [(doc) => Object.assign(doc, { events: [null] }), /number 1 is not an object/],
    [(doc) => Object.assign(doc, { events: 'x' }), /holds no events/],
    [(doc) => Object.assign(doc, { run_id: '../../etc' }), /not the id of a run/],
    [at(1, { seq: 1.5 }), /no position/],
    [at(1, { seq: 1 }), /out of order/],
    [at(1, { stream: 'run_other' }), /another stream/],
    [at(1, { at: 1e300 }), /no time/],
    [at(1, { at: 'now' }), /no time/],
    [at(1, { boot_id: 7 }), /no boot_id/],
    [at(1, { type: 'run.exploded' }), /"run.exploded", which this version does not know/],
    [at(1, { type: '__proto__' }), /does not know/],
    [at(1, { type: 'daemon.failed' }), /does not know/],
    [at(1, { data: [] }), /no data/],
    [
      at(1, {
        type: 'run.completed',
        data: { attempt: 1, finish_reason: 'stop', usage: { input_tokens: 1, output_tokens: 1 } },
      }),
      /not accepted in the state queued/,
    ],
    [at(0, { type: 'run.started' }), /not the acceptance/],
    [data(0, { run_id: 'run_other' }), /another run/],
    [data(0, { request: null }), /no right request/],
    [data(0, { request: { prompt: 5 } }), /no right request/],
    [data(0, { max_attempts: null }), /no right max_attempts/],
    [data(2, { token_ids: null }), /no right token_ids/],
    [data(2, { token_ids: ['a'] }), /no right token_ids/],
    [data(2, { text: { toString: 1 } }), /no right text/],
    [data(1, { attempt: 9 }), /not accepted in the state queued/],
  ];
  for (const [change, message] of cases) assert.match(problemOf(await changed(change)), message);
});

test('a changed file is refused or folded, and has no other effect', async () => {
  const files = await Promise.all(all.map((id) => written(id)));
  const value = fc.oneof(
    fc.jsonValue({ maxDepth: 3 }),
    fc.constantFrom('__proto__', 'run.completed', 1e308, -1, 0.5, '', null, [], {}),
  );
  const property = fc.property(
    fc.constantFrom(...files),
    fc.array(fc.tuple(fc.nat(), fc.nat(), fc.nat(), value), { minLength: 1, maxLength: 3 }),
    (text, edits) => {
      const doc = JSON.parse(text) as Doc;
      for (const [which, field, deep, put] of edits) edit(doc, which, field, deep, put);
      const { digest: _, ...rest } = doc;
      const problem = problemOf(JSON.stringify({ ...rest, digest: digestOf(rest) }));
      if (problem !== '') return;
      const { snapshot } = foldRunFile(
        parseRunFile(JSON.stringify({ ...rest, digest: digestOf(rest) })),
      );
      if (snapshot !== undefined) JSON.stringify(runRecord(snapshot, 1));
    },
  );
  fc.assert(property, { numRuns: 2000 });
});

/** Changes one field of one event, or of its data. */
function edit(doc: Doc, which: number, field: number, deep: number, put: unknown): void {
  const event = doc.events[which % doc.events.length] as unknown as
    | Record<string, unknown>
    | undefined;
  if (typeof event !== 'object' || event === null) return;
  const target =
    deep % 3 === 0 || typeof event.data !== 'object' || event.data === null
      ? event
      : (event.data as Record<string, unknown>);
  const names = Object.keys(target);
  const name = names[field % Math.max(1, names.length)];
  if (name !== undefined) target[name] = put;
}

test('each field of a conversation, replaced by anything, is refused by name or shown', async () => {
  const text = [{ type: 'text', text: 'a' }];
  const call = { type: 'tool_call', id: 'c', name: 'n', arguments: '{}' };
  const rich = {
    messages: [
      { role: 'system', content: text },
      {
        role: 'user',
        content: [...text, { type: 'image', media_type: 'image/png', data: 'AA==' }],
      },
      { role: 'assistant', content: [call] },
      { role: 'tool', content: [{ type: 'tool_result', id: 'c', text: 'r', is_error: false }] },
    ],
    tools: [{ name: 'n', description: 'd', parameters: { type: 'object' } }],
    tool_choice: { name: 'n' },
    response_format: { type: 'json', name: null, schema: {} },
    stop: ['a'],
  };
  const base = JSON.parse(await written(ids.completed)) as Doc;
  Object.assign((base.events[0] as unknown as { data: { request: object } }).data.request, rich);
  const values = [undefined, null, 0, 1e308, '', true, [], [null], {}, { length: 1e9 }];
  let shown = 0;
  for (const path of pathsIn(base.events[0]?.data, ['events', '0', 'data']))
    for (const value of values) {
      const { digest: _, ...doc } = structuredClone(base);
      replace(doc, path, value);
      try {
        const { snapshot, events } = foldRunFile(
          parseRunFile(JSON.stringify({ ...doc, digest: digestOf(doc) })),
        );
        assert.ok(snapshot);
        JSON.stringify(runRecord(snapshot, events.length));
        shown += 1;
      } catch (error) {
        assert.is((error as SvcError).code, 'export_invalid', `${path}: ${error}`);
      }
    }
  assert.ok(shown > 0);
});

/** The path of each value in a value. */
function pathsIn(value: unknown, at: string[]): string[][] {
  if (typeof value !== 'object' || value === null) return [at];
  return [at, ...Object.entries(value).flatMap(([key, inner]) => pathsIn(inner, [...at, key]))];
}

function replace(doc: object, path: readonly string[], value: unknown): void {
  let place = doc as Record<string, unknown>;
  for (const key of path.slice(0, -1)) place = place[key] as Record<string, unknown>;
  place[path.at(-1) ?? ''] = value;
}

test('an unknown run has no file', async () => {
  assert.is(await written('run_nobody'), '');
});

test('files of a result are images and sounds, with their data', () => {
  const picture = { type: 'image', media_type: 'image/png', data: 'QUFB' };
  const finished = { call: 1, text: 'page', is_error: false };
  const check = (media: unknown) =>
    checkRunEvent('run.tool_finished', { ...finished, media }, false, 'run_1');
  assert.is(checkRunEvent('run.tool_finished', finished, false, 'run_1'), null);
  assert.is(check([picture]), null);
  const wrong = '(run.tool_finished) has no right media';
  for (const media of [
    picture,
    [{ ...picture, data: 1 }],
    [{ type: 'text', text: 'page' }],
    [null],
    null,
  ])
    assert.is(check(media), wrong, JSON.stringify(media));
});

test.run();
