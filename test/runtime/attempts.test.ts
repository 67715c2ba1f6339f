import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { SvcError } from '../../src/errors.ts';
import { TERMINAL } from '../../src/runtime/runtime.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import { gatedStore } from '../helpers/kernel.ts';
import { bootRuntime } from '../helpers/runtime.ts';
import { finish, gate, output, ScriptedProvider, untilAborted } from '../helpers/scripted-provider.ts';
import { turns } from '../helpers/turns.ts';
import { waitFor } from '../helpers/wait.ts';

const codeOf = (work: Promise<unknown>) => work.then(() => null).catch((error: SvcError) => error.code);

test('a part without text loses none of the text after it', async () => {
  const local = new ScriptedProvider('local', [output(''), output('Hello'), output(''), output(' you'), finish()]);
  const { runtime, kernel } = await bootRuntime({ local });
  const { id } = await runtime.startRun({ prompt: 'hi' }, 'test');
  await waitFor('the run has ended', () => kernel.cell(id) === undefined);
  const run = await runtime.getRun(id);
  assert.is(run.state, 'completed');
  assert.is(run.output, 'Hello you');
});

test('a cancel that comes while the start is being recorded stops the work, and there is one end', async () => {
  const store = gatedStore(createMemoryStore());
  const local = new ScriptedProvider('local', (_, signal) => [untilAborted(signal)]);
  const { runtime } = await bootRuntime({ local, store });
  const { id } = await runtime.startRun({ prompt: 'hi' }, 'test');
  store.hold();
  const cancelling = runtime.cancelRun(id, 'test');
  await turns();
  store.release();
  assert.is((await cancelling).state, 'cancelled');
  await turns();
  assert.is(local.open, 0);
  assert.is((await store.readStream(id, 1, 100)).filter((event) => TERMINAL.has(event.type as never)).length, 1);
});

test('what a provider says after its run was given up is heard by nobody', async () => {
  const late = gate();
  const store = createMemoryStore();
  const local = new ScriptedProvider('local', [output('a'), () => late.opened, output('too late'), finish()]);
  local.stream = async function* () {
    yield output('a');
    await late.opened;
    yield output('too late');
    yield finish();
  };
  const { runtime, clock } = await bootRuntime({ local, store });
  const { id } = await runtime.startRun({ prompt: 'hi' }, 'test');
  await turns();
  const cancelling = runtime.cancelRun(id, 'test');
  await turns();
  clock.advance(10_000);
  const cancelled = await cancelling;
  late.open();
  await turns();
  assert.equal(await runtime.getRun(id), cancelled);
  const events = await store.readStream(id, 1, 100);
  assert.is(events.at(-1)?.type, 'run.cancelled');
});

test('a cancel that waits when the daemon closes is told so, and does not wait for ever', async () => {
  const local = new ScriptedProvider('local', () => [output('a'), () => new Promise<void>(() => {})]);
  const { runtime, kernel } = await bootRuntime({ local });
  const { id } = await runtime.startRun({ prompt: 'hi' }, 'test');
  await turns();
  let code: string | null = null;
  void codeOf(runtime.cancelRun(id, 'test')).then((found) => {
    code = found;
  });
  await turns();
  kernel.close();
  await waitFor('the caller is told', () => code !== null);
  assert.is(code, 'daemon_stopping');
});

test('an effect that is repeated does nothing more: its attempt is asked once, also when it has ended', async () => {
  const local = new ScriptedProvider('local', [output('a', 1), output('b', 2), finish()]);
  const { runtime, kernel, attempts } = await bootRuntime({ local });
  const { id } = await runtime.startRun({ prompt: 'hi' }, 'test');
  const again = () => attempts.start({ run_id: id, attempt: 1 });
  kernel.onFact(again);
  again();
  await waitFor('the run has ended', () => kernel.cell(id) === undefined);
  again();
  await turns();
  assert.is(local.asked.length, 1);
  assert.is((await runtime.getRun(id)).output, 'ab');
});

test('a log that fails under an answer is told to the kernel, and no rejection is left to itself', async () => {
  const store = gatedStore(createMemoryStore());
  const door = gate();
  const local = new ScriptedProvider('local', (_, signal) => [() => door.opened, output('a', 1), untilAborted(signal)]);
  const { runtime, fatal } = await bootRuntime({ local, store });
  const unhandled: unknown[] = [];
  const listener = (error: unknown) => unhandled.push(error);
  process.on('unhandledRejection', listener);
  await runtime.startRun({ prompt: 'hi' }, 'test');
  await waitFor('it is asked', () => local.open === 1);
  await turns();
  store.failWith(new Error('the disk is gone'));
  door.open();
  await waitFor('it is known', () => fatal.length === 1);
  await turns();
  process.off('unhandledRejection', listener);
  assert.equal(unhandled, []);
});

test.run();
