import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/errors.ts';
import { eventData } from '../../../src/transport/stream/event-forms.ts';
import { gatedStore } from '../../helpers/kernel.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import { finish, output, ScriptedProvider } from '../../helpers/scripted-provider.ts';
import { createMemoryStore } from '../../helpers/store/memory.ts';
import { turns } from '../../helpers/turns.ts';

const codeOf = (work: Promise<unknown>) =>
  work.then(() => null).catch((error: SvcError) => error.code);

test('a run that finds the disk full is refused at once and never sent, and the next one is answered when there is space', async () => {
  const store = gatedStore(createMemoryStore());
  const local = new ScriptedProvider('local', [output('hello'), finish()]);
  const { runtime, clock } = await bootRuntime({ local, store });
  store.failWith(new SvcError('store_full'));
  assert.is(await codeOf(runtime.runs.start({ prompt: 'finds it' }, 'test')), 'store_full');
  assert.is(await codeOf(runtime.runs.start({ prompt: 'knows it' }, 'test')), 'store_full');
  assert.is(runtime.health().status, 'warn');
  store.failWith(null);
  clock.advance(1000);
  await turns(20);
  const { runs } = await runtime.runs.list({});
  assert.equal(
    runs.map((run) => [run.prompt, run.state]),
    [['finds it', 'cancelled']],
  );
  assert.equal(local.asked, []);
  assert.is(runtime.health().status, 'pass');
  const run = await runtime.runs.start({ prompt: 'after' }, 'test');
  for await (const _ of runtime.runs.follow(run.id, {
    form: eventData,
    signal: new AbortController().signal,
  }));
  assert.is((await runtime.runs.get(run.id)).output, 'hello');
});

test.run();
