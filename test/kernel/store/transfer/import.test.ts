import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SCHEMA_VERSION } from '../../../../machines/events.ts';
import { hasCode } from '../../../../src/errors.ts';
import type { EventRow } from '../../../../src/kernel/store/row.ts';
import { exportLog } from '../../../../src/kernel/store/transfer/export.ts';
import { importLog } from '../../../../src/kernel/store/transfer/import.ts';
import type { LogSource, LogTarget } from '../../../../src/kernel/store/transfer/port.ts';
import { event } from '../samples.ts';

const USAGE = {
  hour: 1,
  provider: 'p',
  model: 'm',
  client: 'c',
  cloud: true,
  runs: 2,
  input_tokens: 3,
  output_tokens: 4,
  estimated: 0,
};

/** Three events; the third position was removed. The texts look like the marks of the format. */
const ROWS: EventRow[] = [1, 2, 4].map((seq, index) => ({
  ...event(seq, 's,"data":{', index + 1, { schema: 1, at: seq + 0.5 }),
  data: JSON.stringify({ text: '{"seq":1,"data":\n\u2028é😀', 2: 1 }),
}));

const SOURCE: LogSource = {
  head: { store: 'sqlite', log_id: 'a', events: 3, last_seq: 4, writers: 0, has_texts: false },
  page: async (from) => ROWS.filter(({ seq }) => seq >= from).slice(0, 2),
  texts: async () => [],
  record: async () => null,
  usage: async function* () {
    yield [USAGE];
  },
  embeddings: async function* () {},
  close: async () => {},
};

/** What an import wrote, and the message of its error. */
async function imported(bytes: Uint8Array, chunk = 7) {
  const written: unknown[] = [];
  const note = (name: string) => async (value?: unknown) => void written.push([name, value]);
  const target: LogTarget = {
    texts: note('texts'),
    expand: async (data) => data,
    append: async (events) => void written.push(...events),
    skip: note('skip'),
    usage: note('usage'),
    embeddings: note('embeddings'),
    finish: note('finish'),
    close: note('close'),
  };
  const file = async function* () {
    for (let at = 0; at < bytes.length; at += chunk) yield bytes.subarray(at, at + chunk);
  };
  const folder = { next: () => null, unfinished: () => [] };
  const error = await importLog(file(), { target, folder }).then(
    () => null,
    (thrown: unknown) => {
      assert.ok(hasCode(thrown, 'import_invalid'), String(thrown));
      return thrown.message;
    },
  );
  const finished = written.some((item) => Array.isArray(item) && item[0] === 'finish');
  assert.is(finished, error === null);
  return { written, error };
}

async function text(): Promise<Buffer> {
  const pieces: string[] = [];
  for await (const piece of exportLog(SOURCE, { program: '1', now: 0 })) pieces.push(piece);
  return Buffer.from(pieces.join(''));
}

test('a log is the same after its file, whatever its texts are', async () => {
  const bytes = await text();
  for (const chunk of [1, 64, 100_000])
    assert.equal((await imported(bytes, chunk)).written, [
      ...ROWS.slice(0, 2),
      ['skip', 3],
      ...ROWS.slice(2),
      ['usage', [USAGE]],
      ['embeddings', []],
      ['finish', undefined],
    ]);
});

test('a file that is cut at any byte is refused', async () => {
  const bytes = await text();
  const messages = new Set<string>();
  for (let end = 0; end < bytes.length; end += 1)
    messages.add((await imported(bytes.subarray(0, end), 4096)).error ?? 'none');
  assert.not.ok(messages.has('none'));
  assert.ok(messages.has('The file is cut off: it has 2 of 3 events, and no end.'));
});

test('a file with any byte changed after its header is refused, mostly with its line', async () => {
  const bytes = await text();
  const begin = bytes.indexOf('\n') + 1;
  let named = 0;
  for (let at = begin; at < bytes.length; at += 1) {
    const changed = Buffer.from(bytes);
    changed[at] = (changed[at] ?? 0) ^ 1;
    const { error } = await imported(changed, 4096);
    assert.ok(error !== null, `byte ${at}`);
    if (/line \d/.test(error)) named += 1;
  }
  assert.ok(named > (bytes.length - begin) / 2);
});

test('a line that is missing, repeated, or after the end is refused', async () => {
  const lines = (await text()).toString().split(/(?<=\n)/);
  for (let index = 1; index < lines.length; index += 1) {
    assert.ok((await imported(Buffer.from(lines.toSpliced(index, 1).join('')))).error);
    const twice = lines.toSpliced(index, 0, lines[index] ?? '').join('');
    assert.ok((await imported(Buffer.from(twice))).error);
  }
});

test('another file, and a log of a newer svc, are refused with what to do', async () => {
  const lines = (await text()).toString().split('\n');
  const withLine = (index: number, from: string, to: string) =>
    imported(Buffer.from(lines.with(index, (lines[index] ?? '').replace(from, to)).join('\n')));
  assert.match((await imported(Buffer.from('{"seq":1}\n'))).error ?? '', 'is not a log');
  assert.match((await withLine(0, 'svc-log', 'svc-run')).error ?? '', 'is not a log');
  const newer = await withLine(0, '"format_version":1', '"format_version":3');
  assert.match(newer.error ?? '', 'A newer svc wrote this log: its format is 3');
  const schema = SCHEMA_VERSION + 1;
  const later = await withLine(1, '"schema":1', `"schema":${schema}`);
  assert.match(later.error ?? '', `has the schema ${schema}`);
});

test('a log whose events do not add up has no end line', async () => {
  const source = { ...SOURCE, head: { ...SOURCE.head, events: 4 } };
  const pieces: string[] = [];
  const read = (async () => {
    for await (const piece of exportLog(source, { program: '1', now: 0 })) pieces.push(piece);
  })();
  const error = await read.catch((thrown: unknown) => thrown);
  assert.ok(hasCode(error, 'store_corrupt'));
  assert.ok((await imported(Buffer.from(pieces.join('')))).error);
});

test.run();
