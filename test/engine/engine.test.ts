import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ATTENTION } from '../../src/engine/protocol/messages.ts';
import { makeGguf } from '../fixtures/models/make-gguf.ts';
import type { Asking } from '../helpers/asking.ts';
import { failure } from '../helpers/failure.ts';
import {
  type LocalHarness,
  makeLocalProvider,
  readAnswer,
  type WholeAnswer,
} from '../helpers/local-provider.ts';
import { waitFor } from '../helpers/wait.ts';

let local: LocalHarness;
const LONG = { model: 'long', max_tokens: 4000 };

test.before(() => {
  const env = { ...process.env, OPENAI_API_KEY: 'planted-secret', HF_TOKEN: 'planted-secret' };
  local = makeLocalProvider({
    model: 'short',
    env,
    limits: { local_engines: 1, local_runs: 2, cancel_grace_ms: 200 },
  });
  makeGguf(join(local.folder, 'long.gguf'), { context: 4096 });
  makeGguf(join(local.folder, 'short.gguf'), { says: [...'Done.'] });
});
test.after(() => local.close());

const idle = () => waitFor('the engine is idle', () => local.state() === 'warm.idle');
const types = () => local.engine.events.map(({ type }) => type);

/** Starts a run and resolves at its first output. */
async function begin(
  changes: Asking,
): Promise<{ heard: WholeAnswer; end: Promise<WholeAnswer>; abort: AbortController }> {
  const abort = new AbortController();
  const heard: WholeAnswer = { text: '', token_ids: [], parts: [], finish: null };
  const end = readAnswer(local, changes, abort.signal, heard);
  end.catch(() => {});
  await waitFor('the first output', () => heard.parts.length > 0, {
    every_ms: 1,
    within_ms: 60_000,
  });
  return { heard, end, abort };
}

test('the first run loads the engine, and the machine records each step', async () => {
  assert.is(local.state(), 'cold');
  assert.is((await readAnswer(local, { model: 'short' })).text, 'Done.');
  await idle();
  assert.equal(types(), [
    'engine.load_requested',
    'engine.process_started',
    'engine.model_loaded',
    'engine.work_started',
    'engine.work_finished',
  ]);
  const { info, attempt } = local.engine.snapshot().context;
  assert.is(attempt, 1);
  assert.equal(
    { ...info, pid: 0, load_ms: 0 },
    {
      pid: 0,
      model: 'local/short',
      path: join(local.folder, 'short.gguf'),
      threads: 1,
      context_length: 512,
      parallel: 2,
      load_ms: 0,
      chat_template: 'file',
      batching: false,
      gpu: 'cpu',
      gpu_layers: 0,
      attention: ATTENTION,
    },
  );
});

if (process.platform === 'linux') {
  test('the engine process gets what it needs of the environment and no keys', () => {
    const environment = readFileSync(`/proc/${local.pid()}/environ`, 'utf8');
    assert.not.match(environment, 'planted-secret');
    assert.match(environment, 'PATH=');
  });
}

test('another model replaces an idle one, and the next run of the first loads that again', async () => {
  assert.is((await readAnswer(local, { model: 'long', max_tokens: 3 })).token_ids.length, 3);
  assert.is(local.engine.snapshot().context.model, 'local/long');
  assert.ok(types().includes('engine.exited'));
  assert.is((await readAnswer(local, { model: 'short' })).text, 'Done.');
});

test('runs for two models at once wait for each other, and the model in memory answers its own first', async () => {
  const order: string[] = [];
  const asks = ['short', 'long', 'short', 'long'].map((model) =>
    readAnswer(local, { model, max_tokens: 5 }).then(({ token_ids }) =>
      order.push(`${model} ${token_ids.length}`),
    ),
  );
  await Promise.all(asks);
  assert.equal(order, ['short 5', 'short 5', 'long 5', 'long 5']);
});

test('an idle engine is unloaded, its process ends, and the next run loads it again', async () => {
  await readAnswer(local, { model: 'short' });
  await idle();
  const pid = local.pid();
  await local.engine.fireDeadline();
  await waitFor('the engine is unloaded', () => local.state() === 'cold');
  assert.throws(() => process.kill(pid, 0));
  assert.is((await readAnswer(local, { model: 'short' })).text, 'Done.');
});

test('a run that arrives while the engine unloads is answered by the next engine process', async () => {
  await idle();
  const unloaded = local.engine.fireDeadline();
  const heard = readAnswer(local, { model: 'short' });
  await unloaded;
  assert.is((await heard).text, 'Done.');
});

test('a killed engine loses its runs but keeps their text; the machine waits, then the next run is answered', async () => {
  const [first, second] = [await begin(LONG), await begin({ ...LONG, prompt: 'and another' })];
  process.kill(local.pid(), 'SIGKILL');
  for (const { end, heard } of [first, second]) {
    const lost = await failure(end);
    assert.is(lost.code, 'engine_crashed');
    assert.ok(lost.lost && lost.retryable);
    assert.ok(heard.text.length > 0);
  }
  await waitFor('the machine knows', () => local.state() === 'crashed');
  const exited = local.engine.events.findLast(({ type }) => type === 'engine.exited');
  assert.equal(exited && 'signal' in exited && exited.signal, 'SIGKILL');
  const next = readAnswer(local, { model: 'short' });
  await local.engine.fireDeadline();
  assert.is((await next).text, 'Done.');
  await waitFor('the row of crashes is over', () => local.engine.snapshot().context.crashes === 0);
});

test('work of a dead process does not count as work of the next one', async () => {
  const { end } = await begin(LONG);
  process.kill(local.pid(), 'SIGKILL');
  await failure(end);
  await waitFor('the machine knows', () => local.state() === 'crashed');
  await local.engine.fireDeadline();
  const { heard, abort, end: ended } = await begin(LONG);
  assert.is(local.state(), 'warm.busy');
  abort.abort();
  await ended;
  assert.ok(heard.text.length > 0);
  await idle();
});

test('stopping the engine interrupts its runs', async () => {
  const { end } = await begin(LONG);
  await local.engine.tryAppend({ type: 'engine.stop_requested', reason: 'daemon_stopping' });
  const interrupted = await failure(end);
  assert.is(interrupted.code, 'run_interrupted');
  assert.ok(interrupted.lost);
  await waitFor('the engine is gone', () => local.state() === 'cold');
});

test('an abort while the engine loads ends the run, and the engine stays for the next one', async () => {
  const abort = new AbortController();
  const heard = readAnswer(local, { model: 'short' }, abort.signal).catch((error: Error) => error);
  await waitFor('it is on its way', () => local.state() !== 'cold', { every_ms: 1 });
  abort.abort(new Error('enough'));
  assert.is(((await heard) as Error).message, 'enough');
  await local.warm();
  assert.is(local.state(), 'warm.idle');
});

test('the engine leaves signals of the terminal to the daemon', async () => {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.kill(local.pid(), signal);
  assert.is((await readAnswer(local, { model: 'short' })).text, 'Done.');
  await idle();
});

test('work that does not stop ends the engine, and the next run gets a new one', async () => {
  const { end, abort } = await begin(LONG);
  const pid = local.pid();
  process.kill(pid, 'SIGSTOP');
  abort.abort();
  await waitFor('the engine is asked to stop', () => local.state() === 'stopping.asked');
  await local.engine.fireDeadline();
  assert.is((await failure(end)).code, 'run_interrupted');
  assert.throws(() => process.kill(pid, 0));
  assert.is((await readAnswer(local, { model: 'short' })).text, 'Done.');
  await idle();
});

test('a process that cannot start is reported, and the machine is cold again', async () => {
  await local.engine.fireDeadline();
  await waitFor('it is unloaded', () => local.state() === 'cold');
  const program = process.execPath;
  process.execPath = join(local.folder, 'no-such-program');
  try {
    assert.is((await failure(readAnswer(local, { model: 'short' }))).code, 'engine_failed');
  } finally {
    process.execPath = program;
  }
  await waitFor('the engine is unloaded', () => local.state() === 'cold');
  assert.is((await readAnswer(local, { model: 'short' })).text, 'Done.');
});

test('an engine that hangs is killed at its deadlines', async () => {
  const pid = local.pid();
  process.kill(pid, 'SIGSTOP');
  await local.engine.tryAppend({ type: 'engine.stop_requested', reason: 'requested' });
  assert.is(local.state(), 'stopping.asked');
  await local.engine.fireDeadline();
  await waitFor('it is gone', () => local.state() === 'cold');
  assert.throws(() => process.kill(pid, 0));
});

test('a file that only looks like a model is invalid and is not tried again', async () => {
  const whole = readFileSync(join(local.folder, 'short.gguf'));
  writeFileSync(join(local.folder, 'half.gguf'), whole.subarray(0, Math.floor(whole.length / 2)));
  const invalid = await failure(readAnswer(local, { model: 'half' }));
  assert.is(invalid.code, 'model_invalid');
  assert.not(invalid.retryable);
  assert.not.match(invalid.message, /llama|Error:/);
  assert.is(local.engine.snapshot().context.error, null, 'the engine never sees it');
  writeFileSync(join(local.folder, 'text.gguf'), 'just text');
  assert.is((await failure(readAnswer(local, { model: 'text' }))).code, 'model_invalid');
  const unknown = await failure(readAnswer(local, { model: 'nothing' }));
  assert.is(unknown.code, 'model_unknown');
  // A file that is still being looked at counts as known.
  assert.match(unknown.message, /Known: svc-mini, (half, )?long, short(, text)?\./);
  assert.is(local.state(), 'cold');
});

test('an engine that is killed while it loads has crashed, and the next run waits for the retry', async () => {
  const heard = readAnswer(local, { model: 'short' });
  heard.catch(() => {});
  await waitFor('the process loads', () => local.state() === 'loading', { every_ms: 1 });
  const started = local.engine.events.findLast(({ type }) => type === 'engine.process_started');
  process.kill(started !== undefined && 'pid' in started ? started.pid : 0, 'SIGKILL');
  const lost = await failure(heard);
  assert.is(lost.code, 'engine_killed');
  assert.ok(lost.lost && lost.retryable);
  const next = readAnswer(local, { model: 'short' });
  assert.is(local.state(), 'crashed');
  await local.engine.fireDeadline();
  assert.is((await next).text, 'Done.');
  await idle();
  await local.engine.fireDeadline();
  await waitFor('it is unloaded', () => local.state() === 'cold');
});

test('a model that takes too long to load is given up', async () => {
  const heard = readAnswer(local, { model: 'short' });
  heard.catch(() => {});
  await waitFor('the process loads', () => local.state() === 'loading', { every_ms: 1 });
  await local.engine.fireDeadline();
  const late = await failure(heard);
  assert.is(late.code, 'engine_timed_out');
  assert.not.ok(late.retryable, 'the same file would hang again');
  await waitFor('the engine is unloaded', () => local.state() === 'cold');
});

test('the engine process exits when its daemon is gone', async () => {
  const script = `
    import { makeLocalProvider, readAnswer } from ${JSON.stringify(new URL('../helpers/local-provider.ts', import.meta.url).href)};
    const local = makeLocalProvider({ model: ${JSON.stringify(join(local.folder, 'long.gguf'))} });
    setInterval(() => {}, 1000);
    await local.warm();
    void readAnswer(local, { model: ${JSON.stringify(join(local.folder, 'long.gguf'))}, max_tokens: 4000 });
    console.log(JSON.stringify({ pid: local.pid(), folder: local.folder }));`;
  const program = join(local.folder, 'daemon.mts');
  writeFileSync(program, script);
  const daemon = spawn(process.execPath, [program], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = (await once(daemon.stdout, 'data')) as [Buffer];
  const { pid, folder } = JSON.parse(String(line)) as { pid: number; folder: string };
  process.kill(pid, 0);
  daemon.kill('SIGKILL');
  rmSync(folder, { recursive: true });
  await waitFor('the engine is gone', () => {
    try {
      return !process.kill(pid, 0);
    } catch {
      return true;
    }
  });
});

test.run();
