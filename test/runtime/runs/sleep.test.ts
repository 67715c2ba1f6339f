import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { settled } from '../../helpers/calling-model.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import {
  finish,
  gate,
  type Move,
  output,
  ScriptedProvider,
  untilAborted,
} from '../../helpers/scripted-provider.ts';
import { waitFor } from '../../helpers/wait.ts';

/** Runs that work while the computer sleeps, or while the process of the daemon is stopped. */

/** A run whose first output has come. A silence of 20 s ends it, and so does a minute in all. */
async function begun(after: (signal: AbortSignal) => Move[]) {
  const local = new ScriptedProvider('local', []);
  local.script = (_, signal) => [output('a'), ...after(signal)];
  const limits = { run_ms: 60_000, idle_ms: 20_000 };
  const { runtime, kernel, clock } = await bootRuntime({ local, limits });
  const { id } = await runtime.runs.start({ prompt: 'hi' }, 'test');
  const run = () => runtime.runs.get(id);
  await waitFor('the first output', async () => (await run()).output === 'a');
  return { clock, run, ended: () => settled(kernel, id) };
}

test('sleep ends no run that works: its time and the silence of its provider go on where they were', async () => {
  const opened = gate();
  const { clock, run, ended } = await begun(() => [() => opened.opened, output('b'), finish()]);
  clock.advance(15_000);
  clock.jump(90_000_000);
  clock.advance(4_999);
  assert.is((await run()).state, 'streaming');
  opened.open();
  await ended();
  assert.is((await run()).output, 'ab');
});

test('a process that was frozen reads what came meanwhile before a deadline counts', async () => {
  const opened = gate();
  const { clock, run, ended } = await begun((signal) => [
    () => opened.opened,
    output('b'),
    untilAborted(signal),
  ]);
  clock.freeze(25_000);
  clock.advance(0);
  opened.open();
  await waitFor('the second output', async () => (await run()).output === 'ab');
  clock.advance(19_000);
  assert.is((await run()).state, 'streaming');
  clock.freeze(5000);
  clock.advance(0);
  assert.is((await run()).state, 'streaming', 'it has a moment to be read');
  clock.advance(200);
  await ended();
  assert.is((await run()).error?.code, 'provider_stalled');
});

test('after sleep the silence of a provider still ends its run in time', async () => {
  const { clock, run, ended } = await begun((signal) => [untilAborted(signal)]);
  clock.advance(15_000);
  clock.jump(90_000_000);
  clock.advance(5_000);
  await ended();
  assert.is((await run()).error?.code, 'provider_stalled');
});

test.run();
