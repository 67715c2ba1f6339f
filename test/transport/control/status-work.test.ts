import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/errors.ts';
import { statusWork } from '../../../src/transport/control/methods.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import { finish, output, ScriptedProvider } from '../../helpers/scripted-provider.ts';
import { waitFor } from '../../helpers/wait.ts';

test('the status names the models in memory, and only the providers and models of them that fail', async () => {
  const busy = new SvcError('provider_busy', 'far: too many requests.', { retryAfterMs: 20_000 });
  const far = new ScriptedProvider('far', [busy]);
  const near = new ScriptedProvider('near', [output('yes'), finish()]);
  const { runtime, kernel, clock } = await bootRuntime({
    local: new ScriptedProvider('local', []),
    remote: { far: { port: far, kind: 'cloud' }, near: { port: near, kind: 'local' } },
    limits: { run_attempts: 1 },
  });
  const model = { id: 'local/svc-mini', purpose: 'answers', state: 'idle', runs: 0 };
  const models = [{ ...model, memory_bytes: 1, gpu: 'cpu' }];
  assert.equal(statusWork(runtime), { waiting: 0, models, failing: [], tools: [] });
  for (const provider of ['far', 'near']) {
    const { id } = await runtime.runs.start({ prompt: 'hi', provider }, 'test');
    await waitFor('it has ended', () => !kernel.instances.has(id));
  }
  const reason = 'far: too many requests.';
  assert.equal(statusWork(runtime).failing, [
    { id: 'far', state: 'degraded', reason, retry_at: null },
    {
      id: 'far/m',
      state: 'rate_limited',
      reason,
      retry_at: new Date(clock.now() + 20_000).toISOString(),
    },
  ]);
});

test.run();
