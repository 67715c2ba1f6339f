import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { defaultLimits } from '../../../src/limits.ts';
import { checkGguf } from '../../../src/models/gguf/check.ts';
import { memoryNeeds, shapeOf, weightsOf } from '../../../src/models/memory-needs.ts';
import { makeGguf } from '../../fixtures/models/make-gguf.ts';
import { failure } from '../../helpers/failure.ts';
import {
  type LocalHarness,
  makeLocalProvider,
  readAnswer,
  type WholeAnswer,
} from '../../helpers/local-provider.ts';
import { waitFor } from '../../helpers/wait.ts';

const MIB = 1024 * 1024;
/** Long enough that an answer outlasts the load of another model. */
const CONTEXT = 65_536;
const LONG = { max_tokens: 60_000 };
const models = mkdtempSync(join(tmpdir(), 'svc-engines-'));
let local: LocalHarness;

test.before(async () => {
  const path = makeGguf(join(models, 'a.gguf'), { context: CONTEXT });
  for (const name of ['b', 'c']) copyFileSync(path, join(models, `${name}.gguf`));
  makeGguf(join(models, 'huge.gguf'), { context: CONTEXT, width: 512, layers: 12 });
  const shape = shapeOf((await checkGguf(path, MIB))[0], await weightsOf(path));
  const each = memoryNeeds(shape, { parallel: 1, context_tokens: CONTEXT });
  local = makeLocalProvider({
    models,
    model: 'a',
    budget_bytes: Math.floor(2.5 * each),
    limits: { local_runs: 1, engine_context_tokens: CONTEXT },
  });
});
test.after(async () => {
  await local.close();
  rmSync(models, { recursive: true, force: true });
});

const state = () =>
  Object.fromEntries(local.models.loaded(Date.now()).models.map((each) => [each.name, each.state]));
const pidOf = (name: string) =>
  local.models.loaded(Date.now()).models.find((each) => each.name === name)?.pid ?? 0;

interface Begun {
  end: Promise<WholeAnswer>;
  /** It computes again, and more of it comes. */
  goOn(): Promise<void>;
  stop(): Promise<void>;
}

/**
 * Starts an answer that ends with `stop`. Its process rests in the middle of the work, so that a
 * test costs no more on a machine where others take long.
 */
async function begin(model: string): Promise<Begun> {
  const abort = new AbortController();
  const heard: WholeAnswer = { text: '', token_ids: [], parts: [], finish: null };
  const end = readAnswer(local, { ...LONG, model }, abort.signal, heard);
  end.catch(() => {});
  await waitFor(`${model} answers`, () => heard.parts.length > 0, { every_ms: 5 });
  const pid = pidOf(model);
  process.kill(pid, 'SIGSTOP');
  const wake = () => process.kill(pid, 'SIGCONT');
  return {
    end,
    goOn: async () => {
      const before = heard.parts.length;
      wake();
      await waitFor(`${model} goes on`, () => heard.parts.length > before, { every_ms: 5 });
    },
    stop: async () => {
      abort.abort();
      wake();
      await end;
    },
  };
}

test('two models answer at the same time, each with its own process and machine', async () => {
  const [a, b] = [await begin('a'), await begin('b')];
  assert.equal(state(), { a: 'busy', b: 'busy' });
  assert.is.not(pidOf('a'), pidOf('b'));
  assert.equal([...local.engine.all.keys()], [1, 2]);
  for (const each of [a, b]) {
    await each.goOn();
    await each.stop();
  }
  await waitFor('both are idle', () => state().a === 'idle' && state().b === 'idle');
});

test('the death of one process touches no answer of the other', async () => {
  const [a, b] = [await begin('a'), await begin('b')];
  process.kill(pidOf('b'), 'SIGKILL');
  const lost = await failure(b.end);
  assert.equal([lost.code, lost.computing], ['engine_crashed', 1]);
  await waitFor('its machine knows', () => state().b === 'failed');
  assert.is(state().a, 'busy');
  await a.goOn();
  await a.stop();
  await local.engine.all.get(2)?.fireDeadline();
  assert.ok((await readAnswer(local, { model: 'b', max_tokens: 2 })).text.length > 0);
});

test('a third model takes the memory of the one without work, and the other keeps answering', async () => {
  const a = await begin('a');
  const pid = pidOf('a');
  assert.ok((await readAnswer(local, { model: 'c', max_tokens: 2 })).text.length > 0);
  assert.is(pidOf('a'), pid);
  assert.is(state().b, undefined);
  const { reserved_bytes, budget_bytes } = local.models.loaded(Date.now());
  assert.ok(reserved_bytes <= budget_bytes);
  await a.goOn();
  await a.stop();
});

test('a model waits while both others have work, and no process with work is ended for it', async () => {
  const [a, c] = [await begin('a'), await begin('c')];
  const pids = [pidOf('a'), pidOf('c')];
  const b = readAnswer(local, { model: 'b', max_tokens: 2 });
  await waitFor('b has an engine that waits', () => local.room.residents(Date.now()).length === 3);
  assert.equal([pidOf('a'), pidOf('c')], pids);
  await c.stop();
  assert.ok((await b).text.length > 0);
  assert.is(pidOf('a'), pids[0]);
  await a.stop();
});

test('a wait for memory ends with the abort of its caller', async () => {
  const [a, b] = [await begin('a'), await begin('b')];
  const abort = new AbortController();
  const c = readAnswer(local, { model: 'c' }, abort.signal).catch((error: Error) => error.message);
  await waitFor('c waits', () => local.room.residents(Date.now()).length === 3);
  abort.abort(new Error('enough'));
  assert.is(await c, 'enough');
  assert.is(local.room.residents(Date.now()).length, 2);
  for (const each of [a, b]) await each.stop();
});

test('a model that cannot fit alone is refused with what it needs, and unloads nothing', async () => {
  const before = Object.keys(state());
  const refused = await failure(readAnswer(local, { model: 'huge' }));
  assert.equal([refused.code, refused.retryable], ['model_too_large', false]);
  assert.match(
    refused.message,
    /local\/huge needs about \d+ MiB .* use \d+ MiB .* Loaded: local\//,
  );
  const { needs_bytes, budget_bytes } = refused.details as Record<string, number>;
  assert.ok((needs_bytes ?? 0) > (budget_bytes ?? 0));
  assert.equal(Object.keys(state()), before);
});

test('a model is loaded and unloaded on request, and keeps its time', async () => {
  await local.models.unload('a');
  assert.is(state().a, undefined);
  await local.models.load('a', 3_600_000, new AbortController().signal);
  assert.is(state().a, 'idle', 'it has no work any more');
  const [a] = local.models.loaded(Date.now()).models.filter(({ name }) => name === 'a');
  assert.is(a?.keep_ms, 3_600_000);
  assert.ok((a?.expires_at ?? 0) > Date.now() + 3_000_000);
  const busy = await begin('a');
  assert.is((await failure(local.models.unload('a'))).code, 'model_in_use');
  await busy.stop();
});

test('a model that is unloaded after its work keeps its usual time later', async () => {
  const keepMs = () =>
    local.models.loaded(Date.now()).models.find(({ name }) => name === 'a')?.keep_ms;
  await local.models.unload('a');
  const busy = await begin('a');
  await local.models.keep('a', 0);
  await busy.stop();
  await waitFor('its work is over', () => state().a !== 'busy');
  assert.ok(state().a === undefined || keepMs() === 0);
  await local.models.unload('a');
  const again = await begin('a');
  assert.is(keepMs(), defaultLimits.engine_idle_ms);
  await again.stop();
});

test('a load that hangs is ended by its deadline, and touches no other model', async () => {
  const a = await begin('a');
  const pid = pidOf('a');
  await local.models.unload('b');
  const machine = local.engine.all.get(2);
  const before = machine?.events.length ?? 0;
  const b = failure(readAnswer(local, { model: 'b' }));
  const started = () =>
    machine?.events.slice(before).find(({ type }) => type === 'engine.process_started');
  await waitFor('the load has begun', () => started() !== undefined, { every_ms: 1 });
  const event = started();
  process.kill(event !== undefined && 'pid' in event ? event.pid : 0, 'SIGSTOP');
  await machine?.fireDeadline();
  await machine?.fireDeadline();
  assert.is((await b).code, 'engine_timed_out');
  assert.is((await failure(readAnswer(local, { model: 'b' }))).code, 'model_quarantined');
  assert.is(pidOf('a'), pid);
  await a.stop();
});

test.run();
