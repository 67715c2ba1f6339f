import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Message } from '../../src/contract/messages/parts.ts';
import { PromptCache } from '../../src/engine/decode/prompt-cache.ts';
import { type LoadedModel, loadModel } from '../../src/engine/load.ts';
import type { FromEngine, PromptReport } from '../../src/engine/protocol/from-engine.ts';
import type { RunOrder } from '../../src/engine/protocol/messages.ts';
import { Runs } from '../../src/engine/runs.ts';
import type { Log } from '../../src/ports/log.ts';
import { makeGguf } from '../fixtures/models/make-gguf.ts';
import { type LocalHarness, makeLocalProvider, readAnswer } from '../helpers/local-provider.ts';
import { waitFor } from '../helpers/wait.ts';

const root = mkdtempSync(join(tmpdir(), 'svc-prompts-'));
const models = join(root, 'models');
mkdirSync(models);
const path = makeGguf(join(models, 'random.gguf'), { context: 2048 });
const BATCH = 128;
const LONG = Array.from({ length: 30 }, (_, at) => `sentence ${at}`).join('. ');
const said = (role: Message['role'], text: string): Message =>
  ({ role, content: [{ type: 'text', text }] }) as Message;
const FIRST = [said('user', LONG)];
const turns = (answer: string) => [...FIRST, said('assistant', answer), said('user', 'and then?')];

test.after(() => rmSync(root, { recursive: true, force: true }));

/** The one engine in this process. After a restart it has the files and nothing else. */
let opened: Promise<LoadedModel> | null = null;
let folders = 0;

interface Place {
  folder: string;
  reports: PromptReport[];
  /** What is in the folder when a file is reported as removed. */
  left: string[];
  files(): string[];
}

function place(): Place {
  folders += 1;
  const home = join(root, `home-${folders}`);
  const folder = join(home, 'prompts');
  mkdirSync(folder, { recursive: true });
  return {
    folder,
    reports: [],
    left: [],
    files: () => readdirSync(folder).map((name) => join(folder, name)),
  };
}

interface Changes {
  budget_bytes?: number;
  model?: string;
  engine?: string;
}

/** One life of the engine. Without a place nothing outlives it. */
async function life<T>(
  at: Place | null,
  work: (engine: Engine) => Promise<T>,
  changes: Changes = {},
) {
  opened ??= loadModel(
    {
      type: 'load',
      path,
      threads: 1,
      threads_file: join(root, 'threads.json'),
      purpose: 'answers',
      gpu_layers: 0,
      parallel: 2,
      context_tokens: 2048,
      batching: false,
      attention: { cache_keys: 'f16', cache_values: 'f16', flash: 'auto' },
      template_ms: 10_000,
    },
    () => true,
  );
  const loaded = await opened;
  const { budget_bytes = 1e9, model = 'm', engine = loaded.engineKey } = changes;
  const { decoder } = loaded;
  const report = async (did: PromptReport) => {
    at?.reports.push(did);
    if (did.did === 'removed' && at !== null) at.left.push(...readdirSync(at.folder));
  };
  const key = { model, engine };
  const cache =
    at === null ? null : new PromptCache({ folder: at.folder, budget_bytes, key, decoder, report });
  await cache?.open();
  const runs = new Runs(loaded, (message) => hear(message), cache);
  let hear: (message: FromEngine) => void = () => {};
  const ask: Engine['ask'] = (order) =>
    new Promise((done, fail) => {
      let text = '';
      hear = (message) => {
        if (message.type === 'output') text += message.text;
        else if (message.type === 'finished')
          done({ text, cached: message.usage.cached_tokens ?? 0 });
        else fail(new Error(JSON.stringify(message)));
      };
      runs.start({ ...NEW, ...order });
    });
  const result = await work({ ask });
  await runs.close();
  return result;
}

interface Engine {
  ask(order: Partial<RunOrder>): Promise<{ text: string; cached: number }>;
}

const NEW: RunOrder = {
  type: 'run',
  id: 1,
  client: 'me',
  messages: FIRST,
  max_tokens: 8,
  temperature: 0,
  seed: 7,
  exact: true,
  only_count: false,
  options: {},
  call_key: 'one',
  resume: null,
};

/** The answers to two turns, each of an engine that nothing outlives. */
async function withoutFiles(exact = true): Promise<[string, string]> {
  const { text } = await life(null, ({ ask }) => ask({ exact }));
  const second = await life(null, ({ ask }) => ask({ exact, messages: turns(text) }));
  return [text, second.text];
}

for (const exact of [true, false])
  test(`a conversation goes on from its file: ${exact ? 'with' : 'without'} a seed`, async () => {
    const [one, two] = await withoutFiles(exact);
    const at = place();
    assert.is((await life(at, ({ ask }) => ask({ exact }))).text, one);
    const [file] = at.files() as [string];
    assert.is(statSync(file).mode & 0o777, 0o600);
    const messages = turns(one);
    const second = await life(at, ({ ask }) => ask({ exact, messages, call_key: 'two' }));
    assert.is(second.text, two, 'as without files');
    assert.ok(second.cached >= 2 * BATCH, `${second.cached} tokens`);
    const [written, used, longer] = at.reports;
    assert.equal([written?.did, written?.run], ['written', 'run_one']);
    assert.equal([used?.did, used?.run, used?.used_by], ['used', 'run_one', 'run_two']);
    assert.equal([longer?.did, longer?.run], ['written', 'run_two']);
    assert.is(at.files().length, 1, 'a longer one replaces its beginning');
  });

test('each damaged file is refused, removed and named', async () => {
  const [one, two] = await withoutFiles();
  const at = place();
  await life(at, ({ ask }) => ask({}));
  const [file] = at.files() as [string];
  const whole = readFileSync(file);
  const { length } = whole;
  const described = length - 16 - whole.readUInt32LE(length - 16);
  const flip = (index: number) => () => {
    const bytes = Buffer.from(whole);
    bytes[index] = (bytes[index] ?? 0) ^ 0x40;
    writeFileSync(file, bytes);
  };
  const damages: Record<string, () => void> = {
    'the head of llama.cpp': flip(1),
    'its tokens': flip(40),
    'the state': flip(Math.floor(described / 2)),
    'the end of the state': flip(described - 1),
    'the description': flip(described + 20),
    'the length': flip(length - 16),
    'the checksum': flip(length - 12),
    'the mark': flip(length - 1),
    'cut off': () => truncateSync(file, length - 1),
    half: () => truncateSync(file, Math.floor(length / 2)),
    empty: () => truncateSync(file, 0),
    longer: () => writeFileSync(file, Buffer.concat([whole, Buffer.alloc(64)])),
    'another name': () => {
      writeFileSync(file.replace(/[^-]+\.prompt$/, '0123456789abcdef.prompt'), whole);
      rmSync(file);
    },
  };
  for (const [words, damage] of Object.entries(damages)) {
    writeFileSync(file, whole);
    damage();
    const [name] = readdirSync(at.folder);
    at.reports.length = 0;
    at.left.length = 0;
    const answer = await life(at, ({ ask }) => ask({ messages: turns(one) }));
    assert.equal(answer, { text: two, cached: 0 }, words);
    const [refused, ...others] = at.reports;
    assert.equal([refused?.did, refused?.file, at.left], ['removed', name, []], words);
    assert.equal(
      others.map(({ did }) => did),
      ['written'],
      words,
    );
    for (const left of at.files()) rmSync(left);
  }
});

test('a file that is damaged or removed after the start is not used', async () => {
  const [one, two] = await withoutFiles();
  const at = place();
  for (const damage of [truncateSync, rmSync]) {
    await life(at, ({ ask }) => ask({}));
    const [file] = at.files() as [string];
    const answer = await life(at, ({ ask }) => {
      damage(file);
      return ask({ messages: turns(one) });
    });
    assert.equal(answer, { text: two, cached: 0 });
    for (const left of at.files()) rmSync(left);
  }
});

test('a file of another model, engine or client is not used', async () => {
  const at = place();
  const { text } = await life(at, ({ ask }) => ask({}));
  const messages = turns(text);
  const cached = async (changes: Changes, order: Partial<RunOrder> = {}) =>
    (await life(at, ({ ask }) => ask({ messages, ...order }), changes)).cached;
  assert.is(await cached({ model: 'another' }), 0);
  assert.is(await cached({ engine: 'another' }), 0);
  assert.is(await cached({}, { client: 'another' }), 0);
  assert.ok((await cached({})) > 0);
});

test('a file whose name was given to another model is refused', async () => {
  const at = place();
  await life(at, ({ ask }) => ask({}));
  const [own] = at.files() as [string];
  await life(at, ({ ask }) => ask({}), { model: 'another' });
  const other = at.files().find((file) => file !== own) as string;
  writeFileSync(own, readFileSync(other));
  const { cached } = await life(at, ({ ask }) => ask({}));
  assert.is(cached, 0);
  assert.ok(
    at.reports.some(({ did, reason }) => did === 'removed' && /another model/.test(reason ?? '')),
  );
});

test('a conversation without a seed replaces no file that one with a seed can read', async () => {
  const at = place();
  const once = (order: Partial<RunOrder>) => life(at, ({ ask }) => ask(order));
  const { text } = await once({});
  // Computed with another run, so no run with a seed reuses it.
  const meta = { batched: true, token_ids: [], text: '', parts: [], threads: null };
  await once({ exact: false, resume: meta, messages: turns('ok') });
  assert.ok((await once({ messages: turns(text) })).cached >= 2 * BATCH);
});

test('the least recently used files leave', async () => {
  const at = place();
  const ask = (number: number, budget_bytes?: number) =>
    life(
      at,
      (engine) => engine.ask({ messages: [said('user', `${number} ${LONG}`)], max_tokens: 1 }),
      { ...(budget_bytes === undefined ? {} : { budget_bytes }) },
    );
  await ask(1);
  const [first] = at.files() as [string];
  const { size } = statSync(first);
  await ask(2);
  const second = at.files().find((file) => file !== first) as string;
  utimesSync(second, 1, 1);
  await ask(3, 2.5 * size);
  assert.is(at.files().length, 2);
  assert.ok(at.files().includes(first) && !at.files().includes(second));
  await ask(4, size / 2);
  assert.equal(at.files(), [], 'one above the budget is not written');
});

test('a short prompt is not kept', async () => {
  const at = place();
  await life(at, ({ ask }) => ask({ messages: [said('user', 'hi')] }));
  assert.equal(at.files(), []);
});

/** A home of real engine processes. */
interface Home {
  cache: string;
  /** The lines of the daemon about files. */
  lines: Record<string, unknown>[];
  open(more?: Parameters<typeof makeLocalProvider>[0]): LocalHarness;
  files(): string[];
}

function home(): Home {
  const { folder, files } = place();
  const cache = join(folder, '..');
  const lines: Home['lines'] = [];
  const note = (fields: object, message: string) =>
    void (message.includes('computed prompt') && lines.push({ ...fields, message }));
  const log: Log = { debug() {}, info: note, warn: note, error() {} };
  const limits = { engine_context_tokens: 2048, local_runs: 1 };
  return {
    cache,
    lines,
    open: ({ limits: more, ...others } = {}) =>
      makeLocalProvider({ models, cache, log, ...others, limits: { ...limits, ...more } }),
    files,
  };
}

const asking = (messages: Message[]) => ({ model: 'random', messages, max_tokens: 8 });

test('the daemon keeps and removes the files of its history, and logs what was done', async () => {
  const at = home();
  const gone = new Set<string>();
  const local = at.open({ hasRun: async (run_id) => !gone.has(run_id) });
  try {
    const { text } = await readAnswer(local, asking(FIRST));
    await unload(local);
    assert.is(at.files().length, 1);
    await local.prompts.sweep();
    assert.is(at.files().length, 1);
    const { finish } = await readAnswer(local, asking(turns(text)));
    assert.ok((finish?.usage.cached_tokens ?? 0) >= 2 * BATCH);
    assert.equal(
      at.lines.map(({ message, model }) => [message, model]),
      ['written', 'used'].map((did) => [
        `the file of a computed prompt was ${did}`,
        'local/random',
      ]),
    );
    gone.add(String(at.lines[0]?.run));
    await local.prompts.sweep();
    assert.equal(at.files(), []);
    gone.add(String(at.lines[1]?.used_by));
    await unload(local);
    await waitFor('the removal of what was in memory', () => at.files().length === 0);
    assert.is(at.lines.length, 3, 'it was written first');
  } finally {
    await local.close();
  }
  writeFileSync(join(at.cache, 'prompts', 'a-b-c.prompt'), 'x');
  const off = at.open({ limits: { prompt_cache_bytes: 0 } });
  await off.prompts.sweep();
  assert.equal(at.files(), []);
  await off.close();
});

test('an engine that is killed while it writes or reads leaves no wrong text', async () => {
  const [one, two] = await withoutFiles();
  const at = home();
  const local = at.open();
  try {
    for (let round = 0; round < 4; round += 1) {
      assert.is((await readAnswer(local, asking(FIRST))).text, one);
      const writer = local.pid();
      const unloaded = unload(local);
      if (round > 0) await waitFor('a draft or a file', () => at.files().length > 0);
      else await waitFor('the stop', () => local.state().startsWith('stopping'));
      kill(writer);
      await unloaded;
      const answering = readAnswer(local, asking(turns(one))).catch(() => null);
      await waitFor('the load', () => local.engine.snapshot().hasTag('loaded'));
      const isKilled = round % 2 === 0;
      if (isKilled) kill(local.pid());
      const answer = await answering;
      if (answer !== null) assert.is(answer.text, two);
      if (isKilled) {
        await waitFor('the crash', () => local.state() === 'crashed');
        await local.engine.fireDeadline();
      }
    }
    await unload(local);
    assert.is((await readAnswer(local, asking(turns(one)))).text, two);
    await unload(local);
    assert.ok(
      at.files().every((file) => file.endsWith('.prompt')),
      'no draft is left',
    );
  } finally {
    await local.close();
  }
});

async function unload(local: LocalHarness): Promise<void> {
  await waitFor('the end of the work', () => local.state() === 'warm.idle');
  await local.models.unload('random');
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}

test.run();
