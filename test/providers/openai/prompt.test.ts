import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { adaptBody } from '../../../src/providers/openai/prompt.ts';
import type { Asking } from '../../helpers/asking.ts';
import { outcome, type RemoteOptions, remote } from '../../helpers/remote.ts';
import { Upstream } from '../../helpers/upstream.ts';

/** The request that the server gets for a run. */
async function sent(
  request: Asking,
  options: RemoteOptions = {},
): Promise<Record<string, unknown>> {
  const upstream = await Upstream.start();
  const provider = remote(upstream.base_url, options);
  await outcome(provider, { request });
  await provider.close();
  await upstream.stop();
  return JSON.parse(upstream.received[0]?.body ?? '{}') as Record<string, unknown>;
}

test('a request has only the fields of the run, and always asks for a stream with usage', async () => {
  assert.equal(await sent({ prompt: 'Hi', seed: 7 }), {
    model: 'm',
    seed: 7,
    messages: [{ role: 'user', content: 'Hi' }],
    stream: true,
    stream_options: { include_usage: true },
  });
});

test('every setting of a run is sent', async () => {
  const body = await sent({
    prompt: 'Hi',
    system: 'Be brief.',
    model: 'other/m:2',
    max_tokens: 5,
    temperature: 0,
    seed: 7,
  });
  assert.equal(body.messages, [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Hi' },
  ]);
  assert.equal([body.model, body.max_tokens, body.temperature, body.seed], ['other/m:2', 5, 0, 7]);
});

test('only an explicit seed is sent', async () => {
  assert.is((await sent({ seed: 7, seed_asked: false })).seed, undefined);
});

test('a prompt is sent as it is, whatever it contains', async () => {
  const prompt = 'a"\\\n\u0000\u2028𝄞 {{x}} </s>';
  assert.equal((await sent({ prompt })).messages, [{ role: 'user', content: prompt }]);
});

test('a request without a model uses the default model', async () => {
  assert.is((await sent({ model: '' }, { config: { model: 'default' } })).model, 'default');
});

test('OpenAI gets the new name of the output limit, others the old one', () => {
  const config = {
    adapter: 'openai-compatible',
    kind: 'cloud',
    model: null,
    key_env: null,
    max_runs: null,
  } as const;
  const openai = adaptBody({ ...config, base_url: 'https://api.openai.com/v1' });
  assert.equal(openai?.({ model: 'm', max_tokens: 5 }), { model: 'm', max_completion_tokens: 5 });
  assert.equal(openai?.({ model: 'm' }), { model: 'm' });
  assert.is(adaptBody({ ...config, base_url: 'https://api.openai.com.example.org/v1' }), null);
});

test.run();
