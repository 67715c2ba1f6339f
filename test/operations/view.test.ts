import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { RunInput } from '../../src/contract/contract.ts';
import type { Runtime } from '../../src/operations/port.ts';
import { eventData } from '../../src/transport/stream/event-forms.ts';
import { bootRuntime } from '../helpers/runtime.ts';
import { finish, output, ScriptedProvider, untilAborted } from '../helpers/scripted-provider.ts';
import { createMemoryStore } from '../helpers/store/memory.ts';
import { codeOf, waitFor } from '../helpers/wait.ts';
import { holder, said } from './principals.ts';

/** What a named token sees and changes: only its own, all, or nothing. */

const local = () => new ScriptedProvider('local', [output('an answer'), finish()]);

async function booted(store = createMemoryStore(), boot_id = 'boot_1', provider = local()) {
  const harness = await bootRuntime({ local: provider, store, boot_id });
  const { runtime } = harness;
  const views = {
    home: runtime,
    cat: runtime.as(holder('cat')),
    dog: runtime.as(holder('dog')),
    reader: runtime.as(holder('reader', 'read')),
    ops: runtime.as(holder('ops', 'admin')),
  };
  return { ...harness, ...views, store };
}

const ids = ({ runs }: { runs: readonly { id: string }[] }) => runs.map(({ id }) => id);
const SIGNAL = new AbortController().signal;

async function events(runtime: Runtime, id: string): Promise<number> {
  let count = 0;
  for await (const slice of runtime.runs.follow(id, { form: eventData, signal: SIGNAL }))
    count += slice.events.length;
  return count;
}

test('a run of another has the error of a run that does not exist, for each method', async () => {
  const { home, cat, dog, reader, ops } = await booted();
  const { id, seq } = await said(cat, { prompt: 'a secret' });
  const exported = async (runtime: Runtime) => {
    for await (const _ of runtime.history.exportRun(id, { redact: false }));
  };
  const methods: Record<string, (runtime: Runtime) => Promise<unknown>> = {
    get: ({ runs }) => runs.get(id),
    show: ({ runs }) => runs.show(id),
    readRequest: ({ runs }) => runs.readRequest(id),
    head: ({ runs }) => runs.head(id),
    failure: ({ runs }) => runs.failure(id),
    askerOf: ({ runs }) => runs.askerOf(id),
    follow: (runtime) => events(runtime, id),
    listBefore: ({ runs }) => runs.list({ before: id }),
    searchBefore: ({ runs }) => runs.search({ words: 'secret', before: id }),
    listOf: ({ runs }) => runs.list({ conversation: id }),
    runAt: ({ history }) => history.runAt(id, seq),
    whyRun: ({ history }) => history.whyRun(id),
    exportRun: exported,
  };
  for (const [name, method] of Object.entries(methods)) {
    for (const runtime of [home, cat, reader, ops])
      assert.is(await codeOf(method(runtime)), undefined, name);
    assert.is(await codeOf(method(dog)), 'run_unknown', name);
  }
  const unknown = await dog.runs.get(id).catch(({ message }: Error) => message);
  assert.is(unknown, `There is no run ${JSON.stringify(id)}.`);
  for (const change of ['cancel', 'remove'] as const) {
    assert.is(await codeOf(dog.runs[change](id, 'dog')), 'run_unknown', change);
    assert.is(await codeOf(reader.runs[change](id, 'reader')), 'scope_insufficient', change);
  }
  assert.is((await cat.runs.cancel(id, 'cat')).state, 'completed');
  assert.is(await codeOf(cat.runs.remove(id)), undefined);
  assert.is(await codeOf(home.runs.get(id)), 'run_unknown');
});

test('lists, words, prefixes, last and usage have only what the token asked', async () => {
  const { home, cat, dog, reader } = await booted();
  const mine: string[] = [];
  for (const prompt of ['one word', 'two words', 'three word']) {
    mine.unshift((await said(cat, { prompt })).id);
    for (let each = 0; each < 3; each += 1) await said(home, { prompt: 'a word of the home' });
  }
  const page = await cat.runs.list({ limit: 2 });
  assert.equal([ids(page), page.next], [mine.slice(0, 2), mine[1]]);
  const rest = await cat.runs.list({ limit: 2, before: String(page.next) });
  assert.equal([ids(rest), rest.next], [mine.slice(2), null]);
  assert.equal(ids(await dog.runs.list({})), []);
  assert.is(ids(await reader.runs.list({ limit: 99 })).length, 12);
  assert.equal(ids(await cat.runs.search({ words: 'word' })), [mine[0], mine[2]]);
  assert.equal(ids(await dog.runs.search({ words: 'word' })), []);
  assert.is(await cat.runs.find('last'), mine[0]);
  assert.is(await codeOf(dog.runs.find('last')), 'run_unknown');
  assert.is((await cat.usage({})).total.runs, 3);
  assert.equal([(await dog.usage({})).total.runs, (await home.usage({})).total.runs], [0, 12]);
});

test('what shows the whole daemon needs read, and changes of it need admin', async () => {
  const { cat, reader, ops } = await booted();
  const shows: Record<string, (runtime: Runtime) => unknown> = {
    machines: ({ history }) => history.machines(),
    snapshot: ({ history }) => history.snapshot({}),
    followLog: ({ history }) =>
      history.followLog({ follow: false }, { form: eventData, signal: SIGNAL }),
    readStream: ({ history }) => history.readStream('daemon:boot_1', 1, 1),
    readLog: ({ history }) => history.readLog(1, 1),
    why: (runtime) => runtime.why(),
  };
  const changes: Record<string, (runtime: Runtime) => unknown> = {
    add: ({ providers }) => providers.add({ id: 'x' }),
    remove: ({ models }) => models.remove('x'),
    use: ({ models }) => models.use('x'),
    alias: ({ models }) => models.setAlias('x', null),
    pull: ({ pulls }) => pulls.pull({ reference: 'x', name: null, sha256: null }, 'x', SIGNAL),
    drain: ({ nodes }) => nodes.drain('x'),
    lifecycle: (runtime) => runtime.lifecycle({ type: 'nothing' }, 'x'),
    cancelAll: ({ runs }) => runs.cancelAll('x', 'x'),
  };
  const code = (call: (runtime: Runtime) => unknown, runtime: Runtime) =>
    codeOf((async () => call(runtime))());
  for (const [name, show] of Object.entries(shows))
    assert.equal(
      [await code(show, cat), await code(show, reader), await code(show, ops)],
      ['scope_insufficient', undefined, undefined],
      name,
    );
  for (const [name, change] of Object.entries(changes))
    assert.equal(
      [await code(change, cat), await code(change, reader)],
      ['scope_insufficient', 'scope_insufficient'],
      name,
    );
  assert.is.not(await code(changes.lifecycle ?? (() => {}), ops), 'scope_insufficient');
});

test('a conversation that a program made is its own, and so are its responses', async () => {
  const { home, cat, dog, reader } = await booted();
  const { conversation_id: id, asked_by } = await cat.runs.made.create({
    metadata: {},
    messages: [],
  });
  assert.is(asked_by, 'cat');
  for (const runtime of [home, cat, reader])
    assert.is((await runtime.runs.made.get(id)).conversation_id, id);
  const { made } = dog.runs;
  const joins = { conversation: id, after: 0, messages: [] };
  for (const [name, refused] of Object.entries({
    get: made.get(id),
    add: made.add(id, { messages: [] }),
    describe: made.describe(id, {}),
    removeItem: made.removeItem(id, 'x'),
    delete: made.delete(id),
    join: dog.runs.start({ prompt: 'x' }, 'test', { joins }),
  }))
    assert.is(await codeOf(refused), 'conversation_unknown', name);
  assert.is(await codeOf(reader.runs.made.delete(id)), 'scope_insufficient');
  assert.is(await codeOf(cat.runs.made.delete(id)), undefined);
});

test('a run has the name of its token, whatever the client says', async () => {
  const { cat, ops, home } = await booted();
  const asked = { asked_by: 'dog' } as object;
  const run = await cat.runs.start({ prompt: 'x' }, 'test', asked);
  assert.is(run.asked_by, 'cat');
  assert.is((await ops.runs.start({ prompt: 'x' }, 'test')).asked_by, 'ops');
  assert.is((await home.runs.start({ prompt: 'x' }, 'test')).asked_by, undefined);
  const embedded = cat.embeddings.embed(
    { texts: ['x'] } as never,
    { client: 'test', asked_by: 'dog' },
    SIGNAL,
  );
  assert.is(await codeOf(embedded), 'capability_missing');
});

test('who asked outlives the daemon, also for a run that has not ended', async () => {
  const store = createMemoryStore();
  const hanging = new ScriptedProvider('local', (_, signal) => [untilAborted(signal)]);
  const before = await booted(store, 'boot_1', hanging);
  const { id } = await before.cat.runs.start({ prompt: 'x', recovery: 'restart' }, 'test');
  await waitFor('it is asked', () => hanging.open === 1);
  before.kernel.close();
  const { cat, dog } = await booted(store, 'boot_2');
  assert.is((await cat.runs.get(id)).asked_by, 'cat');
  assert.equal(ids(await cat.runs.list({})), [id]);
  assert.is(await codeOf(dog.runs.get(id)), 'run_unknown');
});

test('a path as a model needs admin, in every field that names one', async () => {
  const { cat, ops, home } = await booted();
  const start =
    (model: RunInput['model'], more = {}) =>
    (runtime: Runtime) =>
      codeOf(runtime.runs.start({ prompt: 'x', model, ...more }, 'test'));
  const paths = ['/tmp/x.gguf', '/tmp/x', './x', '../x', '~/x.gguf', 'a/../../x', 'x.gguf'];
  paths.push('local//tmp/x.gguf', 'local/local/./x', 'C:\\x.gguf', 'a\\x');
  for (const path of paths) {
    assert.is(await start(path)(cat), 'scope_insufficient', path);
    assert.is(await start(['svc-mini', path])(cat), 'scope_insufficient', path);
    assert.is(await start(path, { provider: 'local' })(cat), 'scope_insufficient', path);
    for (const runtime of [home, ops]) assert.is(await start(path)(runtime), undefined, path);
    for (const call of [
      () => cat.runs.countTokens({ prompt: 'x', model: path }, SIGNAL),
      () => cat.embeddings.embed({ texts: ['x'], model: path } as never, { client: 't' }, SIGNAL),
      () => cat.embeddings.rerank({ query: 'x', model: path } as never, { client: 't' }, SIGNAL),
      () => cat.loads.load({ model: path }, SIGNAL),
      () => cat.loads.unload(path),
      () => cat.models.find(path),
      () => cat.models.show(path),
    ])
      assert.is(await codeOf((async () => call())()), 'scope_insufficient', path);
  }
  for (const name of ['svc-mini', 'local/svc-mini', 'folder/name', 'qwen3:0.6b', 'a.b', 'x..y'])
    assert.is(cat.models.isFile({ model: name }), false, name);
});

test.run();
