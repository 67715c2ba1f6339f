import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeHome } from '../helpers/svc.ts';
import { scripted } from '../helpers/tool-servers.ts';
import { type Exchange, Upstream } from '../helpers/upstream.ts';
import { waitFor } from '../helpers/wait.ts';
import { serve } from '../torture/daemon.ts';

/** What a provider must get back outlives a kill of the daemon, byte for byte. */

const SIGNATURE = 'sig-"\\é\u2028\u0000😀+/==';
const DETAILS = [
  { type: 'reasoning.text', text: 'Hm.', signature: SIGNATURE, index: 0 },
  { type: 'reasoning.encrypted', data: SIGNATURE, id: 'r', index: 1 },
];
const EXTRA = { extra_content: { google: { thought_signature: SIGNATURE } } };
const CALL = {
  id: 'call_1',
  type: 'function',
  function: { name: 'shelf__echo', arguments: '{"text":"blue"}' },
};
const THOUGHT = { type: 'thinking', thinking: 'Hm.', signature: SIGNATURE };
const USE = { type: 'tool_use', id: 'call_1', name: 'shelf__echo', input: { text: 'blue' } };

const chat = (message: object, finish_reason: string) => ({
  choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason }],
  usage: { prompt_tokens: 3, completion_tokens: 5 },
});
const message = (content: object[], stop_reason: string) => ({
  type: 'message',
  role: 'assistant',
  content,
  stop_reason,
  usage: { input_tokens: 3, output_tokens: 5 },
});

/** The first answer has a call, and the one after its result ends the run. */
async function answer(x: Exchange) {
  const { method, path = '', body } = x.received;
  if (method === 'GET') return x.reply(200, { data: [{ id: 'm' }] });
  const isMessages = path.includes('/messages');
  const isSecond = /tool_result|"role":"tool"/.test(body);
  if (isMessages)
    return isSecond
      ? x.reply(200, message([{ type: 'text', text: 'done' }], 'end_turn'))
      : x.reply(200, message([THOUGHT, USE], 'tool_use'));
  if (isSecond) return x.reply(200, chat({ content: 'done' }, 'stop'));
  const called = { reasoning_details: DETAILS, tool_calls: [{ ...CALL, ...EXTRA }] };
  return x.reply(200, chat({ content: null, ...called }, 'tool_calls'));
}

test('a tool loop that a kill cuts off returns what came with its call', async () => {
  const upstream = await Upstream.start(answer);
  const home = makeHome();
  const folder = dirname(home.paths.config);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const at = { base_url: upstream.base_url, model: 'm' };
  const providers = { chat: at, messages: { ...at, adapter: 'anthropic' } };
  writeFileSync(home.paths.config, JSON.stringify({ providers }));
  writeFileSync(
    join(folder, 'mcp.json'),
    JSON.stringify({ mcpServers: { shelf: scripted([], { policy: 'ask' }) } }),
  );
  let life = await serve(home);
  try {
    const runs: string[] = [];
    for (const provider of ['chat', 'messages']) {
      const asked = { prompt: 'go', provider, tool_servers: ['shelf/echo'] };
      runs.push((await life.ask((client) => client.call('run.start', asked))).id);
    }
    const waiting = () => life.ask((client) => client.call('approval.list'));
    await waitFor('both calls wait', async () => (await waiting()).approvals.length === 2);
    await life.kill();
    life = await serve(home);
    await waitFor('both calls wait again', async () => (await waiting()).approvals.length === 2);
    for (const { id } of (await waiting()).approvals)
      await life.ask((client) => client.call('approval.decide', { id, decision: 'allow' }));
    for (const id of runs) {
      const read = () => life.ask((client) => client.call('run.get', { id }));
      await waitFor('the run has ended', async () => (await read()).ended_at !== null);
      const { output, error } = await read();
      assert.equal([output, error], ['done', null]);
    }
    const sent = upstream.received.flatMap(({ method, body }) =>
      method === 'POST' && /tool_result|"role":"tool"/.test(body) ? [JSON.parse(body)] : [],
    );
    const [messages, chats] = sent.toSorted((a) => (a.messages[1].tool_calls ? 1 : -1));
    assert.equal(messages.messages[1].content, [THOUGHT, USE]);
    assert.equal(chats.messages[1].reasoning_details, DETAILS);
    assert.equal(chats.messages[1].tool_calls, [{ ...CALL, ...EXTRA }]);
  } finally {
    await life.kill();
    await home.close();
    await upstream.stop();
  }
});

test.run();
