import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { bootRuntime } from '../../helpers/runtime.ts';
import { finish, output, ScriptedProvider } from '../../helpers/scripted-provider.ts';
import { waitFor } from '../../helpers/wait.ts';

test('runs removed from the history no longer count as finished', async () => {
  const { runtime, propose } = await bootRuntime({
    local: new ScriptedProvider('local', [output('a'), finish()]),
  });
  for (let count = 0; count < 3; count += 1) await runtime.runs.start({ prompt: 'x' }, 'test');
  await waitFor('they are settled', () => runtime.status().state === 'ready');
  assert.is(runtime.status().runs.finished, 3);
  await propose({ type: 'daemon.history_pruned', runs: 2, events: 12 });
  assert.is(runtime.status().runs.finished, 1);
  assert.is(runtime.report().runs.finished, 1);
});

test.run();
