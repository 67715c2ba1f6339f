import { copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { defaultLimits } from '../../../src/limits.ts';
import { admit, readmit } from '../../../src/providers/local/load-check.ts';
import { LoadGuard } from '../../../src/providers/local/load-guard.ts';
import { hostileGgufs, makeLoopingModel } from '../../fixtures/models/hostile-gguf.ts';
import { makeGguf } from '../../fixtures/models/make-gguf.ts';
import { failure } from '../../helpers/failure.ts';
import { type LocalHarness, makeLocalProvider, readAnswer } from '../../helpers/local-provider.ts';
import { waitFor } from '../../helpers/wait.ts';

/** A harmful model file costs only the run that asks for it. */

let local: LocalHarness;

test.before.each(() => {
  local = makeLocalProvider({ limits: { engine_template_ms: 1000 } });
  makeGguf(join(local.folder, 'short.gguf'), { says: [...'Done.'] });
});
test.after.each(() => local.close());

const checks = { built_in: '', limits: defaultLimits };
const newGuard = () => new LoadGuard({ limits: defaultLimits, now: Date.now, refused: null });
const loads = () =>
  local.engine.events.filter(({ type }) => type === 'engine.load_requested').length;

function startedPid({ engine } = local): number {
  const started = engine.events.findLast((event) => event.type === 'engine.process_started');
  assert.ok(started?.type === 'engine.process_started', 'a process has started');
  return started?.type === 'engine.process_started' ? started.pid : 0;
}

test('a false file header is refused before the engine reads it, and the loaded model stays', async () => {
  await readAnswer(local, { model: 'short' });
  await waitFor('the engine is idle', () => local.state() === 'warm.idle');
  for (const [name, bytes] of Object.entries(hostileGgufs())) {
    writeFileSync(join(local.folder, `${name}.gguf`), bytes);
    const refused = await failure(readAnswer(local, { model: name }));
    assert.equal([name, refused.code, refused.retryable], [name, 'model_invalid', false]);
  }
  assert.is(local.state(), 'warm.idle');
  assert.is(loads(), 1);
  if (process.platform !== 'linux') return;
  // The process can gain no privileges where util-linux is installed. Its script heap has a bound.
  const read = (name: string) => readFileSync(`/proc/${local.pid()}/${name}`, 'utf8');
  if (existsSync('/usr/bin/setpriv')) assert.match(read('status'), /^NoNewPrivs:\t1$/m);
  assert.match(read('cmdline'), '--max-old-space-size=');
});

test('an endless chat template ends at its limit, and its file is refused until it changes', async () => {
  const path = makeLoopingModel(join(local.folder, 'loop.gguf'));
  const hung = await failure(readAnswer(local, { model: 'loop' }));
  assert.equal([hung.code, hung.retryable], ['engine_timed_out', false]);
  assert.match(hung.message, /template .* longer than 1000 ms/);
  assert.is((await readAnswer(local, { model: 'short' })).text, 'Done.');
  const before = loads();
  const refused = await failure(readAnswer(local, { model: 'loop' }));
  assert.equal([refused.code, refused.retryable], ['model_quarantined', false]);
  assert.match(refused.message, /loop hung the engine.*until \d{4}-/);
  assert.is(loads(), before, 'nothing is loaded for it');
  const next = makeLocalProvider({ models: local.folder, cache: local.folder });
  try {
    const again = await failure(readAnswer(next, { model: path }));
    assert.is(again.code, 'model_quarantined', 'the next boot refuses the same version too');
    assert.equal(next.engine.events, [], 'no process is started for it');
  } finally {
    await next.close();
  }
  copyFileSync(join(local.folder, 'short.gguf'), path);
  assert.is(
    (await readAnswer(local, { model: 'loop' })).text,
    'Done.',
    'another version is free at once',
  );
});

test('a template that needs too much memory, or recurses without an end, costs its process alone', async () => {
  const answers = '{{ messages[0].content }}';
  const templates = {
    large: `{% for a in range(100000000000) %}{% endfor %}${answers}`,
    deep: `{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}${answers}`,
  };
  for (const [name, template] of Object.entries(templates))
    makeGguf(join(local.folder, `${name}.gguf`), { template });
  const large = await failure(readAnswer(local, { model: 'large' }));
  assert.equal(
    [large.code, large.retryable, large.message],
    [
      'engine_crashed',
      false,
      'Rendering the chat template of the model took more than 512 MiB of memory.',
    ],
  );
  assert.match(large.hint, 'model_templates');
  assert.is((await failure(readAnswer(local, { model: 'deep' }))).code, 'engine_crashed');
  assert.is((await readAnswer(local, { model: 'short' })).text, 'Done.');
  makeLoopingModel(join(local.folder, 'loop.gguf'));
  const shown = async (name: string) => {
    const { problem, template_problem, architecture } = await local.models.show(name);
    assert.equal([problem, architecture], [null, 'llama']);
    return template_problem;
  };
  assert.is(await shown('large'), 'needed too much memory to render');
  assert.is(await shown('deep'), 'ended the process that rendered it');
  assert.is(await shown('loop'), 'took too long to render');
  assert.is(await shown('short'), undefined);
});

test('a run whose template takes too long ends alone, and the file is refused', async () => {
  const slow = '{% for a in range(99999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}';
  const template = `{% if 'slow' in messages[-1].content %}${slow}{% endif %}{{ messages[-1].content }}`;
  makeGguf(join(local.folder, 'turns.gguf'), { template, says: [...'Done.'] });
  assert.ok((await readAnswer(local, { model: 'turns', prompt: 'Hi' })).token_ids.length > 0);
  const hung = await failure(readAnswer(local, { model: 'turns', prompt: 'slow' }));
  assert.equal([hung.code, hung.retryable], ['engine_timed_out', false]);
  assert.match(hung.message, /template .* longer than 1000 ms/);
  await waitFor('the process is gone', () => local.state() === 'crashed');
  const exited = local.engine.events.findLast((event) => event.type === 'engine.exited');
  assert.is(exited?.type === 'engine.exited' && exited.signal, 'SIGVTALRM');
  await local.engine.fireDeadline();
  const again = await failure(readAnswer(local, { model: 'turns', prompt: 'Hi' }));
  assert.is(again.code, 'model_quarantined');
});

test('a load without any run left is stopped, and the next run is answered by a new process', async () => {
  makeLoopingModel(join(local.folder, 'loop.gguf'));
  const abort = new AbortController();
  const asked = readAnswer(local, { model: 'loop' }, abort.signal).catch(
    (error: Error) => error.message,
  );
  await waitFor('it loads', () => local.state() === 'loading', { every_ms: 1 });
  abort.abort(new Error('enough'));
  assert.is(await asked, 'enough');
  await waitFor('the load is stopped', () =>
    local.engine.events.some(({ type }) => type === 'engine.stop_requested'),
  );
  // A process that renders forever does not see the request to stop.
  if (local.state().startsWith('stopping')) await local.engine.fireDeadline();
  assert.is((await readAnswer(local, { model: 'short' })).text, 'Done.');
});

test('a load that is cancelled and does not let the engine stop, twice, is refused', async () => {
  for (const round of [1, 2]) {
    const abort = new AbortController();
    const asked = readAnswer(local, { model: 'short' }, abort.signal).catch(() => {});
    await waitFor('it loads', () => local.state() === 'loading', { every_ms: 1 });
    // As if the load blocked it.
    process.kill(startedPid(), 'SIGSTOP');
    abort.abort(new Error('enough'));
    await asked;
    await waitFor(`stop ${round} is asked`, () => local.state().startsWith('stopping'));
    await local.engine.fireDeadline();
    await waitFor('the engine is gone', () => local.state() === 'cold');
  }
  assert.is((await failure(readAnswer(local, { model: 'short' }))).code, 'model_quarantined');
});

test('a draft model is checked before its model loads', async () => {
  const [path, bad] = ['short.gguf', 'bad-draft.gguf'].map((name) => join(local.folder, name));
  const model = { id: 'local/short', name: 'short', path: path ?? '' };
  const guard = newGuard();
  const shape = await admit({ ...model, draft: model }, guard, checks);
  assert.equal(shape.draft, await admit(model, guard, checks));
  writeFileSync(bad ?? '', 'GGUF and nothing else');
  const draft = { id: 'local/bad-draft', name: 'bad-draft', path: bad ?? '' };
  const error = await failure(admit({ ...model, draft }, guard, checks));
  assert.is(error.code, 'model_invalid');
  assert.match(error.message, /^bad-draft: /);
});

test('a loaded file whose template exceeds its limit is refused until it changes', async () => {
  const path = join(local.folder, 'short.gguf');
  const model = { id: 'local/short', name: 'short', path };
  const guard = newGuard();
  await admit(model, guard, checks);
  guard.noteLoaded(model);
  await readmit(model, guard);
  assert.ok(guard.noteFailure(model, { code: 'engine_timed_out', retryable: false }));
  assert.is((await failure(readmit(model, guard))).code, 'model_quarantined');
  makeGguf(path, { says: [...'Other.'] });
  await readmit(model, guard);
});

test('a run of another model leaves a load alone: each model has its process', async () => {
  const first = readAnswer(local, { model: 'svc-mini', max_tokens: 2 });
  await waitFor('it loads', () => local.state() === 'loading', { every_ms: 1 });
  assert.is((await readAnswer(local, { model: 'short' })).text, 'Done.');
  assert.ok((await first).token_ids.length > 0);
  const reasons = local.engine.events.flatMap((event) =>
    event.type === 'engine.stop_requested' ? [event.reason] : [],
  );
  assert.equal(reasons, []);
  assert.is(loads(), 2);
});

test('a file that kills the engine twice while it loads is refused', async () => {
  for (const round of [1, 2]) {
    const asked = readAnswer(local, { model: 'short' });
    asked.catch(() => {});
    await waitFor('it loads', () => local.state() === 'loading', { every_ms: 1 });
    process.kill(startedPid(), 'SIGABRT');
    assert.is((await failure(asked)).code, 'engine_crashed', `death ${round}`);
    await waitFor('its death is known', () => local.state() === 'crashed');
    await local.engine.fireDeadline();
  }
  assert.is((await failure(readAnswer(local, { model: 'short' }))).code, 'model_quarantined');
  assert.ok((await readAnswer(local, { model: 'svc-mini', max_tokens: 2 })).token_ids.length > 0);
});

test('a load that is killed from outside says nothing about its file, and each next one waits longer', async () => {
  const waits: number[] = [];
  for (let round = 1; round <= 3; round += 1) {
    const asked = readAnswer(local, { model: 'short' });
    asked.catch(() => {});
    await waitFor('it loads', () => local.state() === 'loading', { every_ms: 1 });
    process.kill(startedPid(), 'SIGKILL');
    const { code, retryable, lost, computing } = await failure(asked);
    assert.equal([code, retryable, lost, computing], ['engine_killed', true, true, 0]);
    await waitFor('its death is known', () => local.state() === 'crashed');
    const { since, due_at } = local.engine.snapshot().context;
    waits.push(due_at - since);
    await local.engine.fireDeadline();
  }
  // All the waits: test/machines/deadlines.test.ts.
  assert.equal(waits, [250, 500, 1000]);
  assert.is((await readAnswer(local, { model: 'short' })).text, 'Done.');
});

if (process.platform === 'linux') {
  test('an engine that exceeds its memory limit is ended, and its file is refused', async () => {
    const small = makeLocalProvider({
      models: local.folder,
      limits: { engine_memory_bytes: 8 * 1024 * 1024 },
    });
    try {
      const asked = readAnswer(small, { model: 'short' });
      asked.catch(() => {});
      const isEnded = () => small.state() === 'crashed';
      await waitFor('it loads', () => small.state() === 'loading' || isEnded(), { every_ms: 1 });
      // Its memory is looked at twice in a second: it may not answer before.
      if (!isEnded()) process.kill(startedPid(small), 'SIGSTOP');
      const ended = await failure(asked);
      assert.equal([ended.code, ended.retryable], ['engine_crashed', false]);
      assert.match(ended.message, 'engine_memory_bytes');
      const exited = small.engine.events.findLast((event) => event.type === 'engine.exited');
      assert.is(exited?.type === 'engine.exited' && exited.reason, 'memory');
      await waitFor('its death is known', isEnded);
      await small.engine.fireDeadline();
      assert.is((await failure(readAnswer(small, { model: 'short' }))).code, 'model_quarantined');
    } finally {
      await small.close();
    }
  });
}

test.run();
