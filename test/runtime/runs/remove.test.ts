import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/errors.ts';
import type { EventStore } from '../../../src/kernel/store/port.ts';
import { readRunRequest } from '../../../src/runtime/runs/runs.ts';
import { eventData } from '../../../src/transport/stream/event-forms.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import { finish, gate, output, ScriptedProvider } from '../../helpers/scripted-provider.ts';
import { createMemoryStore } from '../../helpers/store/memory.ts';
import { waitFor } from '../../helpers/wait.ts';

const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'done',
    (error: { code?: string }) => error.code,
  );

test('a finished run leaves the log whole, and its key starts another one', async () => {
  const local = new ScriptedProvider('local', [output('secret', 1), finish()]);
  const { runtime, store } = await bootRuntime({ local });
  const asked = { prompt: 'p', idempotency_key: 'k' };
  const { id } = await runtime.runs.start(asked, 'test');
  const other = await runtime.runs.start({ prompt: 'q' }, 'test');
  for (const run of [id, other.id])
    await waitFor('the run ends', async () => (await runtime.runs.head(run)).finished);
  const before = runtime.status().runs.finished;
  await runtime.runs.remove(id);
  assert.is(await codeOf(runtime.runs.get(id)), 'run_unknown');
  assert.is(await codeOf(runtime.runs.remove(id)), 'run_unknown');
  assert.is(await codeOf(runtime.runs.readRequest(id)), 'run_unknown');
  assert.equal(await store.readStream(id, 1, 10), []);
  assert.ok((await store.verify()).ok);
  assert.is(runtime.status().runs.finished, before - 1);
  assert.is((await runtime.runs.get(other.id)).output, 'secret');
  assert.is.not((await runtime.runs.start(asked, 'test')).id, id);
});

test('a follower of the log gets nothing of a removed run from memory', async () => {
  const local = new ScriptedProvider('local', [output('secret', 1), finish()]);
  const { runtime } = await bootRuntime({ local });
  const leaving = new AbortController();
  const said = async (query: { from_seq?: number; follow: boolean }) => {
    let text = '';
    for await (const { page, events } of runtime.history.followLog(query, {
      form: eventData,
      signal: leaving.signal,
    }))
      for (const event of events) text += JSON.stringify(page.body.storedOf(event).data);
    return text;
  };
  // While one client follows, others share its pages.
  const followed = said({ follow: true });
  const { id } = await runtime.runs.start({ prompt: 'p' }, 'test');
  await waitFor('the run ends', async () => (await runtime.runs.head(id)).finished);
  assert.match(await said({ from_seq: 1, follow: false }), 'secret');
  await runtime.runs.remove(id);
  assert.not.match(await said({ from_seq: 1, follow: false }), 'secret');
  leaving.abort();
  assert.match(await followed, 'secret');
});

test('a follower that is behind when its run is removed gets an error, not a silent end', async () => {
  const { opened, open } = gate();
  const local = new ScriptedProvider('local', [output('a', 1), () => opened, finish()]);
  const { runtime, kernel } = await bootRuntime({ local });
  const { id } = await runtime.runs.start({ prompt: 'p' }, 'test');
  const { signal } = new AbortController();
  const slow = runtime.runs.follow(id, { form: eventData, signal })[Symbol.asyncIterator]();
  assert.not.ok((await slow.next()).done);
  open();
  await waitFor('the run ends', async () => (await runtime.runs.head(id)).finished);
  await waitFor('the run is settled', () => !kernel.instances.has(id as `run_${string}`));
  const { seq } = await runtime.runs.head(id);
  const upToDate = runtime.runs
    .follow(id, { form: eventData, from_seq: seq + 1, signal })
    [Symbol.asyncIterator]();
  assert.ok((await upToDate.next()).done, 'it has all events already');
  await runtime.runs.remove(id);
  assert.is(await codeOf(slow.next()), 'run_unknown');
});

test('the answer to a removal says why texts may remain, and a damaged later turn stops none', async () => {
  const local = new ScriptedProvider('local', [output('a', 1), finish()]);
  const inner = createMemoryStore();
  let bad: string | null = null;
  const corrupt = async () => {
    throw new SvcError('store_corrupt', 'It is damaged.');
  };
  const store: EventStore = {
    ...inner,
    runHead: (id) => (id === bad ? corrupt() : inner.runHead(id)),
    listRuns: async (query) =>
      (await inner.listRuns(query)).map((row) =>
        row.run_id === bad ? { run_id: bad, damage: 'It is damaged.' } : row,
      ),
    removeRun: async (id) => ({ ...(await inner.removeRun(id)), trouble: 'It is being read.' }),
  };
  const { runtime, kernel } = await bootRuntime({ local, store });
  const ids: string[] = [];
  for (const prompt of ['one', 'two', 'three']) {
    const turn = ids[0] === undefined ? {} : { conversation: ids[0] };
    const { id } = await runtime.runs.start({ prompt, ...turn }, 'test');
    await waitFor('the run ends', async () => (await runtime.runs.head(id)).finished);
    await waitFor('the run is settled', () => !kernel.instances.has(id as `run_${string}`));
    ids.push(id);
  }
  const [one = '', two = '', three = ''] = ids;
  assert.is(await codeOf(runtime.runs.remove(one)), 'run_continued');
  bad = two;
  assert.is(await codeOf(runtime.runs.remove(one)), 'run_continued', 'the third turn is whole');
  assert.match(
    (await runtime.runs.remove(three)).trouble ?? '',
    /still has its texts \(It is being/,
  );
  assert.is(await codeOf(runtime.runs.remove(two)), 'store_corrupt');
  const { trouble = '' } = await runtime.runs.remove(one);
  assert.match(trouble, `The run ${two} repeats its texts, and stays because it is damaged.`);
});

test('a run that has not ended stays', async () => {
  const { opened, open } = gate();
  const local = new ScriptedProvider('local', [output('a', 1), () => opened, finish()]);
  const { runtime } = await bootRuntime({ local });
  const { id } = await runtime.runs.start({ prompt: 'p' }, 'test');
  assert.is(await codeOf(runtime.runs.remove(id)), 'run_unfinished');
  open();
  await waitFor('the run ends', async () => (await runtime.runs.head(id)).finished);
  assert.is(await codeOf(runtime.runs.remove(id)), 'done');
  assert.is(await codeOf(runtime.runs.remove('daemon:boot_1')), 'run_unknown');
});

test('what a run was asked is the same from memory and from the log', async () => {
  const { opened, open } = gate();
  const local = new ScriptedProvider('local', [output('a', 1), () => opened, finish()]);
  const { runtime, kernel, store } = await bootRuntime({ local });
  const image = { type: 'image', media_type: 'image/png', data: 'iVBORw0KGgoAAAAN' } as const;
  const { id } = await runtime.runs.start(
    { messages: [{ role: 'user', content: [image] }], metadata: { a: 'b' } },
    'test',
    { asked_as: { api: 'x', fields: { y: 1 } } },
  );
  const live = await runtime.runs.readRequest(id);
  assert.equal(live.request.messages[0]?.content, [image]);
  assert.equal(live.asked_as, { api: 'x', fields: { y: 1 } });
  assert.equal(live.metadata, { a: 'b' });
  open();
  await waitFor('the run ends', async () => (await runtime.runs.head(id)).finished);
  await waitFor('the run is settled', () => !kernel.instances.has(id as `run_${string}`));
  assert.equal(await readRunRequest({ kernel, store }, id), live);
});

test.run();
