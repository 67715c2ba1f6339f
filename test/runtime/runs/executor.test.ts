import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { isTerminalEvent } from '../../../machines/run/context.ts';
import { promptOf } from '../../../src/contract/messages/parts.ts';
import type { SvcError } from '../../../src/errors.ts';
import type { OutputPart } from '../../../src/ports/providers.ts';
import { gatedStore } from '../../helpers/kernel.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import {
  finish,
  gate,
  output,
  ScriptedProvider,
  untilAborted,
} from '../../helpers/scripted-provider.ts';
import { createMemoryStore } from '../../helpers/store/memory.ts';
import { turns } from '../../helpers/turns.ts';
import { waitFor } from '../../helpers/wait.ts';

const codeOf = (work: Promise<unknown>) =>
  work.then(() => null).catch((error: SvcError) => error.code);

test('a part without text loses none of the text after it', async () => {
  const local = new ScriptedProvider('local', [
    output(''),
    output('Hello'),
    output(''),
    output(' you'),
    finish(),
  ]);
  const { runtime, kernel } = await bootRuntime({ local });
  const { id } = await runtime.runs.start({ prompt: 'hi' }, 'test');
  await waitFor('the run has ended', () => !kernel.instances.has(id));
  const run = await runtime.runs.get(id);
  assert.is(run.state, 'completed');
  assert.is(run.output, 'Hello you');
});

test('the parts of an answer, what stopped it and the load of its model are in the record', async () => {
  const call = { id: 'a', name: 'look' };
  const local = new ScriptedProvider('local', [
    { ...output('Hm.'), kind: 'reasoning' } as OutputPart,
    output('I look.'),
    { ...output('{}'), kind: 'tool_call', call } as OutputPart,
    { ...finish(), stop_sequence: 'END', load_ms: 1900, tool_form: 'generic' } as OutputPart,
  ]);
  const { runtime, kernel } = await bootRuntime({ local });
  const { id } = await runtime.runs.start({ prompt: 'hi', stop: ['END'] }, 'test');
  await waitFor('the run has ended', () => !kernel.instances.has(id));
  const run = await runtime.runs.get(id);
  assert.is(run.output, 'I look.');
  assert.equal([run.stop_sequence, run.load_ms, run.tool_form], ['END', 1900, 'generic']);
  assert.equal(run.output_parts, [
    { type: 'reasoning', text: 'Hm.' },
    { type: 'text', text: 'I look.' },
    { type: 'tool_call', ...call, arguments: '{}' },
  ]);
});

test('a cancel while the start is being recorded stops the work, and the run ends once', async () => {
  const store = gatedStore(createMemoryStore());
  const local = new ScriptedProvider('local', (_, signal) => [untilAborted(signal)]);
  const { runtime } = await bootRuntime({ local, store });
  const { id } = await runtime.runs.start({ prompt: 'hi' }, 'test');
  store.hold();
  const cancelling = runtime.runs.cancel(id, 'test');
  await turns();
  store.release();
  assert.is((await cancelling).state, 'cancelled');
  await turns();
  assert.is(local.open, 0);
  assert.is(
    (await store.readStream(id, 1, 100)).filter((event) => isTerminalEvent(event.type)).length,
    1,
  );
});

test('output of a provider after its run was given up is ignored', async () => {
  const late = gate();
  const store = createMemoryStore();
  const local = new ScriptedProvider('local', [
    output('a'),
    () => late.opened,
    output('too late'),
    finish(),
  ]);
  local.stream = async function* () {
    yield output('a');
    await late.opened;
    yield output('too late');
    yield finish();
  };
  const { runtime, clock } = await bootRuntime({ local, store });
  const { id } = await runtime.runs.start({ prompt: 'hi' }, 'test');
  await turns();
  const cancelling = runtime.runs.cancel(id, 'test');
  await turns();
  clock.advance(10_000);
  const cancelled = await cancelling;
  late.open();
  await turns();
  assert.equal(await runtime.runs.get(id), cancelled);
  const events = await store.readStream(id, 1, 100);
  assert.is(events.at(-1)?.type, 'run.cancelled');
});

test('a cancel that waits when the daemon closes gets an error at once', async () => {
  const local = new ScriptedProvider('local', () => [
    output('a'),
    () => new Promise<void>(() => {}),
  ]);
  const { runtime, kernel } = await bootRuntime({ local });
  const { id } = await runtime.runs.start({ prompt: 'hi' }, 'test');
  await turns();
  let code: string | null = null;
  void codeOf(runtime.runs.cancel(id, 'test')).then((found) => {
    code = found;
  });
  await turns();
  kernel.close();
  await waitFor('the caller has its error', () => code !== null);
  assert.is(code, 'daemon_stopping');
});

test('a repeated effect does nothing: its attempt is sent once, even after it has ended', async () => {
  const local = new ScriptedProvider('local', [output('a', 1), output('b', 2), finish()]);
  const { runtime, kernel, executor } = await bootRuntime({ local });
  const { id } = await runtime.runs.start({ prompt: 'hi' }, 'test');
  const again = () => executor.start({ run_id: id, attempt: 1 });
  kernel.subscribe('all', again);
  again();
  await waitFor('the run has ended', () => !kernel.instances.has(id));
  again();
  await turns();
  assert.is(local.asked.length, 1);
  assert.is((await runtime.runs.get(id)).output, 'ab');
});

test('a log that fails under an answer is reported to the kernel, and no rejection is unhandled', async () => {
  const store = gatedStore(createMemoryStore());
  const door = gate();
  const local = new ScriptedProvider('local', (_, signal) => [
    () => door.opened,
    output('a', 1),
    untilAborted(signal),
  ]);
  const { runtime, fatal } = await bootRuntime({ local, store });
  const unhandled: unknown[] = [];
  const listener = (error: unknown) => unhandled.push(error);
  process.on('unhandledRejection', listener);
  await runtime.runs.start({ prompt: 'hi' }, 'test');
  await waitFor('it is asked', () => local.open === 1);
  await turns();
  store.failWith(new Error('the disk is gone'));
  door.open();
  await waitFor('it is known', () => fatal.length === 1);
  await turns();
  process.off('unhandledRejection', listener);
  assert.equal(unhandled, []);
});

test('when answers are too large together, the provider with the most text loses its largest; the others continue', async () => {
  const go = { greedy: gate(), last: gate(), modest: gate() };
  const first = [() => go.greedy.opened, output('b'.repeat(400))];
  const greedy = new ScriptedProvider('greedy', ({ request }, signal) =>
    promptOf(request) === 'large'
      ? [output('a'.repeat(500)), ...first, () => go.last.opened, output('c'), untilAborted(signal)]
      : [output('small'), finish()],
  );
  const modest = new ScriptedProvider('modest', [
    output('m'.repeat(450)),
    () => go.modest.opened,
    finish(),
  ]);
  const { runtime, kernel, outputs, scheduler } = await bootRuntime({
    local: new ScriptedProvider('local', []),
    limits: { answers_bytes: 1024 },
    remote: { greedy: { port: greedy, kind: 'local' }, modest: { port: modest, kind: 'local' } },
  });
  const start = async (provider: string, prompt: string) =>
    (await runtime.runs.start({ prompt, provider }, 'test')).id;
  const [large, other] = [await start('greedy', 'large'), await start('modest', 'x')];
  await turns();
  assert.ok(outputs.hasRoom);
  go.greedy.open();
  await waitFor('the large one has ended', () => !kernel.instances.has(large));
  const { state, error, output: kept } = await runtime.runs.get(large);
  assert.equal([state, error?.code], ['failed', 'stream_oversized']);
  assert.match(error?.message ?? '', 'larger together than the limit answers_bytes (1024)');
  assert.is(kept, 'a'.repeat(500) + 'b'.repeat(400), 'what came is kept');
  assert.is(greedy.open, 0, 'its stream has ended');
  assert.is((await runtime.runs.get(other)).state, 'streaming');
  assert.is(scheduler.queued, 0);
  const next = await start('greedy', 'small');
  await waitFor('the next one has ended', () => !kernel.instances.has(next));
  go.modest.open();
  await waitFor('the other one has ended', () => !kernel.instances.has(other));
  assert.is((await runtime.runs.get(other)).state, 'completed');
});

test('while a cut answer still keeps its text, a new run waits', async () => {
  const stopped = gate();
  const slow = new ScriptedProvider('slow', []);
  slow.stream = async function* ({ request }) {
    try {
      yield output('x'.repeat(promptOf(request) === 'large' ? 2000 : 1));
      yield finish();
    } finally {
      if (promptOf(request) === 'large') await stopped.opened;
    }
  };
  const { runtime, kernel, scheduler } = await bootRuntime({
    local: new ScriptedProvider('local', []),
    limits: { answers_bytes: 1024 },
    remote: { slow: { port: slow, kind: 'local' } },
  });
  const { id: large } = await runtime.runs.start({ prompt: 'large', provider: 'slow' }, 'test');
  await turns();
  const { id: next } = await runtime.runs.start({ prompt: 'small', provider: 'slow' }, 'test');
  await turns();
  assert.is(scheduler.position(next), 1);
  stopped.open();
  await waitFor(
    'both have ended',
    () => !kernel.instances.has(large) && !kernel.instances.has(next),
  );
  assert.equal(
    [(await runtime.runs.get(large)).state, (await runtime.runs.get(next)).state],
    ['failed', 'completed'],
  );
});

test.run();
