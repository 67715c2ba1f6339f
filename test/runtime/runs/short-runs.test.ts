import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { bootRuntime } from '../../helpers/runtime.ts';
import { finish, ScriptedProvider } from '../../helpers/scripted-provider.ts';
import { waitFor } from '../../helpers/wait.ts';

test('a short run has no long lists, and a page counts them', async () => {
  const local = new ScriptedProvider('local', [finish()]);
  const { runtime, kernel } = await bootRuntime({ local, limits: { page_bytes: 4096 } });
  const text = 'x'.repeat(3000);
  const messages = [
    { role: 'system' as const, content: [{ type: 'text' as const, text }] },
    { role: 'user' as const, content: [{ type: 'text' as const, text: 'hi' }] },
    { role: 'assistant' as const, content: [{ type: 'text' as const, text: 'yes' }] },
    { role: 'user' as const, content: [{ type: 'text' as const, text: 'go on' }] },
  ];
  for (let n = 0; n < 3; n += 1) {
    const { id } = await runtime.runs.start({ messages, metadata: { title: 't' } }, 'test');
    await waitFor('the run has ended', () => !kernel.instances.has(id));
  }
  const short = await runtime.runs.list({ texts: 'short' });
  assert.is(short.runs.length, 3);
  for (const run of short.runs) {
    assert.equal([run.prompt, run.messages, run.shortened], ['go on', undefined, true]);
    assert.equal(run.metadata, { title: 't' });
  }
  const whole = await runtime.runs.list({ texts: 'whole' });
  assert.is(whole.runs.length, 1, 'a page has at most page_bytes');
  assert.is(whole.runs[0]?.messages?.length, 4);
});

test.run();
