import Anthropic from '@anthropic-ai/sdk';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../src/errors.ts';
import type { AttemptRequest } from '../../src/ports/providers.ts';
import { callingModel } from '../helpers/calling-model.ts';
import { type Move, output } from '../helpers/scripted-provider.ts';
import { ScriptedServers } from '../helpers/scripted-servers.ts';
import { TOKEN } from '../transport/http/boot.ts';
import { bootReal } from '../transport/http/real.ts';
import { clientOf, MODEL } from './openai/boot.ts';

/** A turn after a call begins again: its engine died, and the policy is `restart`. */

const DIED = new SvcError('engine_crashed', 'gone', { retryable: true, lost: true });
const messages = [{ role: 'user' as const, content: 'go' }];

async function boot() {
  const model = callingModel([['files__read', '{}']]);
  const whole = model.script as (request: AttemptRequest, signal: AbortSignal) => Move[];
  /** The runs whose second turn has died. */
  const died = new Set<string>();
  const script = (request: AttemptRequest, signal: AbortSignal): Move[] => {
    if (request.request.messages.length === 1 || died.has(request.run_id))
      return whole(request, signal);
    died.add(request.run_id);
    return [output('do', 1), DIED];
  };
  const run = () => ({ text: 'read', is_error: false });
  const servers = new ScriptedServers({ 'files/read': { policy: 'allow', run } });
  const aliases = { reader: MODEL };
  const alias_presets = { reader: { tool_servers: ['files'] } };
  const settings = { recovery: 'restart' as const, aliases, alias_presets };
  return bootReal({ script, servers, settings });
}

test('chat completions have what the turn said once, whole and streamed', async () => {
  const real = await boot();
  const client = clientOf(real);
  const tools = [{ type: 'mcp', server_label: 'files', require_approval: 'never' }] as never;
  const asked = { model: MODEL, messages, tools };
  const whole = await client.chat.completions.create(asked);
  assert.is(whole.choices[0]?.message.content, 'done');
  let text = '';
  for await (const { choices } of await client.chat.completions.create({ ...asked, stream: true }))
    text += choices[0]?.delta.content ?? '';
  assert.is(text, 'I look. \n\ndone');
  await real.close();
});

test('so do APIs without tools of servers, where an alias brings them', async () => {
  const real = await boot();
  const post = async (path: string, more: object) =>
    (await real.get(path, { method: 'POST', body: { model: 'reader', ...more } })).text;
  const chat = { messages: [{ role: 'user', content: 'go' }] };
  const whole = JSON.parse(await post('/api/chat', { ...chat, stream: false }));
  assert.is(whole.message.content, 'done');
  const lines = (await post('/api/chat', chat)).trim().split('\n');
  const texts = lines.map((line) => JSON.parse(line).message.content);
  assert.is(texts.join(''), 'I look. \n\ndone');
  const { choices } = JSON.parse(await post('/v1/completions', { prompt: 'go' }));
  assert.is(choices[0].text, 'done');
  await real.close();
});

test('so do messages, with the text and the call of the turn before', async () => {
  const real = await boot();
  const client = new Anthropic({ apiKey: TOKEN, baseURL: real.url, maxRetries: 0 });
  const asked = {
    model: MODEL,
    max_tokens: 100,
    messages,
    mcp_servers: [{ type: 'url' as const, name: 'files', url: '' }],
  };
  const streamed = await client.beta.messages.stream(asked).finalMessage();
  for (const { content } of [await client.beta.messages.create(asked), streamed])
    assert.equal(
      content.map((block) => (block.type === 'text' ? block.text : block.type)),
      ['I look. ', 'mcp_tool_use', 'mcp_tool_result', 'done'],
    );
  await real.close();
});

test.run();
