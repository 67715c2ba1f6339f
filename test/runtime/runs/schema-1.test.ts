import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { RunSnapshot } from '../../../machines/run/chart.ts';
import { promptOf, shortMessages } from '../../../src/contract/messages/parts.ts';
import { foldStream } from '../../../src/kernel/fold.ts';
import type { EventStore, StoredEvent } from '../../../src/kernel/store/port.ts';
import { digestOf, exportRun } from '../../../src/observability/history/export.ts';
import { foldRunFile, parseRunFile } from '../../../src/observability/history/run-file.ts';
import { runRecord, runRow } from '../../../src/runtime/runs/record.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import { finish, output, ScriptedProvider } from '../../helpers/scripted-provider.ts';
import { createMemoryStore } from '../../helpers/store/memory.ts';
import { waitFor } from '../../helpers/wait.ts';
import { parseLines } from '../../walk/recorded/logs.ts';

/** Logs of version 0.1.0 have events of schema 1. They work as those of the present schema. */

const FOLDER = 'test/fixtures/recorded/0.1.0';
const files = readdirSync(FOLDER).filter((file) => /^run\..*\.jsonl$/.test(file));

/** The events as 0.1.0 wrote them, in a log of their own. */
function recorded(file: string): StoredEvent[] {
  const lines = readFileSync(`${FOLDER}/${file}`, 'utf8').trim().split('\n');
  return lines.map((line, index) => ({ ...(JSON.parse(line) as StoredEvent), seq: index + 1 }));
}

async function storeOf(events: StoredEvent[]): Promise<EventStore> {
  const store = createMemoryStore();
  await store.open();
  const text = events.map((event) => JSON.stringify(event)).join('\n');
  const snapshot = (await foldOf(parseLines(text))).snapshot as RunSnapshot;
  await store.append({ events, runs: [runRow(snapshot, events.length)] });
  return store;
}

async function foldOf(events: StoredEvent[]) {
  const readStream = async (_: string, from: number) => events.slice(from - 1);
  const instance = await foldStream({ readStream }, events[0]?.stream ?? '');
  assert.ok(instance);
  return instance;
}

const requestOf = ([first]: readonly StoredEvent[]) =>
  first?.data.request as { prompt: string; system: string | null; messages?: unknown };

test('there are streams of schema 1 to read', () => {
  assert.ok(files.length > 20, `${files.length} files`);
  for (const file of files) assert.is(recorded(file)[0]?.schema, 1, file);
});

for (const file of files)
  test(`${file}: the store reads it with messages, and its bytes stay`, async () => {
    const events = recorded(file);
    const store = await storeOf(events);
    const asked = requestOf(events);
    const [accepted] = await store.readStream(events[0]?.stream ?? '', 1, 1);
    assert.is(accepted?.schema, 2);
    const omitted = accepted?.data.content === 'omitted' && asked.prompt === '';
    assert.equal(
      requestOf([accepted as StoredEvent]).messages,
      omitted ? [] : shortMessages(asked.prompt, asked.system),
    );
    assert.not('prompt' in requestOf([accepted as StoredEvent]));
    assert.ok((await store.verify()).ok, 'the hashes cover the bytes as they were written');
    const { prompt, system } = runRecord(
      (await foldOf([...(await all(store, events))])).snapshot as RunSnapshot,
      1,
    );
    assert.equal([prompt, system], omitted ? ['', null] : [asked.prompt, asked.system]);
  });

async function all(store: EventStore, [first]: readonly StoredEvent[]): Promise<StoredEvent[]> {
  return store.readStream(first?.stream ?? '', 1, 1000);
}

test('a run that 0.1.0 left unfinished is asked again with its messages', async () => {
  const events = recorded('run.completed-after-daemon-death.jsonl').slice(0, 2);
  const store = await storeOf(events);
  const answers = new ScriptedProvider('local', () => [output('done', 1), finish()]);
  const { kernel, runtime } = await bootRuntime({ local: answers, store, boot_id: 'boot_2' });
  const id = events[0]?.stream ?? '';
  await waitFor('it has ended', () => !kernel.instances.has(id as never));
  const run = await runtime.runs.get(id);
  assert.equal([run.state, run.output], ['completed', 'done']);
  assert.equal(
    answers.asked.map(({ request }) => promptOf(request)),
    [requestOf(events).prompt],
  );
});

test('a run of 0.1.0 is explained, shown at each position and exported in the present schema', async () => {
  const events = recorded('run.completed-after-daemon-death.jsonl');
  const store = await storeOf(events);
  const id = events[0]?.stream ?? '';
  const { runtime } = await bootRuntime({
    local: new ScriptedProvider('local', []),
    store,
    boot_id: 'boot_2',
  });
  assert.ok((await runtime.history.whyRun(id)).explanation.length > 3);
  for (const { seq } of events)
    assert.is((await runtime.history.runAt(id, seq)).prompt, requestOf(events).prompt, `at ${seq}`);
  let text = '';
  for await (const piece of exportRun(store, id, { redact: false, version: '0.2.0', now: 0 }))
    text += piece;
  assert.not.match(text, '"prompt"');
  const replayed = foldRunFile(parseRunFile(text)).snapshot;
  assert.is(promptOf((replayed as RunSnapshot).context.request), requestOf(events).prompt);
});

test('an export that 0.1.0 wrote is replayed', () => {
  const events = recorded('run.completed-after-retry.jsonl');
  const file = {
    format: 'svc-run-export',
    version: 1,
    exported_at: '2026-11-01T00:00:00.000Z',
    program: { version: '0.1.0' },
    boot: null,
    run_id: events[0]?.stream ?? '',
    redacted: false,
    events,
    daemon_events: [],
  };
  const { snapshot } = foldRunFile(
    parseRunFile(JSON.stringify({ ...file, digest: digestOf(file) })),
  );
  assert.is(promptOf((snapshot as RunSnapshot).context.request), requestOf(events).prompt);
});

test.run();
