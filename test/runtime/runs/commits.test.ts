import { Worker } from 'node:worker_threads';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Commit, EventStore } from '../../../src/kernel/store/port.ts';
import { createSqliteStore } from '../../../src/kernel/store/sqlite/sqlite.ts';
import { gatedStore } from '../../helpers/kernel.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import { finish, gate, output, ScriptedProvider } from '../../helpers/scripted-provider.ts';
import { createMemoryStore } from '../../helpers/store/memory.ts';
import { turns } from '../../helpers/turns.ts';
import { waitFor } from '../../helpers/wait.ts';
import { makePlace } from '../../kernel/store/samples.ts';

/** What one run costs: its commits, and what each of them has. A client waits for each commit. */

const pieces = Array.from({ length: 20 }, (_, index) => output(`word ${index} `, index));

/** A store that notes the types of each commit, and the states of its rows. */
function noting(inner: EventStore): { store: EventStore; commits: string[][]; rows: string[][] } {
  const commits: string[][] = [];
  const rows: string[][] = [];
  const append = (commit: Commit) => {
    commits.push(commit.events.map(({ type }) => type));
    rows.push(commit.runs.map(({ state }) => state));
    return inner.append(commit);
  };
  return { store: { ...inner, append }, commits, rows };
}

async function bootNoting(local: ScriptedProvider, limits = {}, log = createMemoryStore()) {
  const { store, commits, rows } = noting(log);
  const booted = await bootRuntime({ local, store, limits });
  const ask = async () => (await booted.runtime.runs.start({ prompt: 'hi' }, 'test')).id;
  const ended = (id: string) =>
    waitFor('the run has ended', () => !booted.kernel.instances.has(id));
  // The first answer also changes the state of the provider.
  await ended(await ask());
  const clear = () => {
    commits.length = 0;
    rows.length = 0;
  };
  clear();
  return { ...booted, commits, rows, ask, ended, clear };
}

test('a run whose answer comes in one turn costs two commits, four events and two rows', async () => {
  const local = new ScriptedProvider('local', [...pieces, finish()]);
  const { runtime, commits, rows, ask, ended } = await bootNoting(local);
  const id = await ask();
  await ended(id);
  assert.equal(commits, [
    ['run.accepted', 'run.started'],
    ['run.output_appended', 'run.completed'],
  ]);
  assert.equal(rows, [['starting'], ['completed']]);
  assert.is((await runtime.runs.get(id)).output.split(' ').length, 41);
});

test('a run costs two messages to the thread of the log, and reads nothing from it', async () => {
  const place = makePlace(undefined, createSqliteStore);
  const store = place.store();
  const sent: string[] = [];
  const { postMessage } = Worker.prototype;
  Worker.prototype.postMessage = function (this: Worker, ...args) {
    sent.push((args[0] as { method: string }).method);
    return postMessage.apply(this, args);
  };
  try {
    const local = new ScriptedProvider('local', [...pieces, finish()]);
    const { ask, ended, clear } = await bootNoting(local, {}, store);
    clear();
    sent.length = 0;
    await ended(await ask());
    assert.equal(sent, ['append', 'append']);
  } finally {
    Worker.prototype.postMessage = postMessage;
    await store.close();
    place.remove();
  }
});

test('what comes during a commit is one event of the next commit, together with the end', async () => {
  const [more, rest] = [gate(), gate()];
  const gated = gatedStore(createMemoryStore());
  const { store, commits } = noting(gated);
  const script = [output('a', 1), () => more.opened, output('b', 2), () => rest.opened];
  const local = new ScriptedProvider('local', [...script, ...pieces, finish()]);
  const { runtime, kernel } = await bootRuntime({ local, store });
  const { id } = await runtime.runs.start({ prompt: 'hi' }, 'test');
  await turns();
  commits.length = 0;
  gated.hold();
  more.open();
  await turns();
  rest.open();
  await turns();
  gated.release();
  await waitFor('the run has ended', () => !kernel.instances.has(id));
  assert.equal(commits, [['run.output_appended'], ['run.output_appended', 'run.completed']]);
});

test('a run that ends makes room for the next one in the same commit', async () => {
  const door = gate();
  const local = new ScriptedProvider('local', [finish()]);
  const { commits, ask, ended, clear } = await bootNoting(local, { local_runs: 1 });
  local.script = [() => door.opened, finish()];
  const first = await ask();
  local.script = [finish()];
  const second = await ask();
  clear();
  door.open();
  await Promise.all([ended(first), ended(second)]);
  assert.equal(commits[0], ['run.completed', 'run.started']);
});

test.run();
