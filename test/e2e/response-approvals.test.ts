import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import OpenAI from 'openai';
import type {
  Response,
  ResponseCreateParamsStreaming,
  ResponseStreamEvent,
} from 'openai/resources/responses/responses';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { answerScripted } from '../clients/scripted-model.ts';
import { makeHome } from '../helpers/svc.ts';
import { scripted } from '../helpers/tool-servers.ts';
import { Upstream } from '../helpers/upstream.ts';
import { type Life, serve } from '../torture/daemon.ts';

/** A response with an approval, of the built daemon, which is killed before and after it. */

async function clientOf(life: Life): Promise<OpenAI> {
  const { addresses } = await life.ask((client) => client.call('status'));
  const { token } = await life.ask((client) => client.call('token'));
  return new OpenAI({ baseURL: `${addresses.http}/v1`, apiKey: token, maxRetries: 0 });
}

/** The events up to one of this type, at which the daemon is killed. Null: all. */
async function read(
  stream: AsyncIterable<ResponseStreamEvent>,
  kill: { life: Life; at: ResponseStreamEvent['type'] } | null = null,
): Promise<ResponseStreamEvent[]> {
  const heard: ResponseStreamEvent[] = [];
  try {
    for await (const event of stream) {
      heard.push(event);
      if (event.type === kill?.at) kill.life.child.kill('SIGKILL');
    }
  } catch (error) {
    if (kill === null) throw error;
  }
  await kill?.life.ended;
  return heard;
}

function lastOf(events: readonly ResponseStreamEvent[]): Response {
  const last = events.at(-1);
  if (last?.type !== 'response.completed') throw new Error(`it ended with ${last?.type}`);
  return last.response;
}

test('an approval and its stream outlive a kill of the daemon, and the call is carried out', async () => {
  const upstream = await Upstream.start(answerScripted);
  const home = makeHome();
  const folder = dirname(home.paths.config);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const providers = { up: { base_url: upstream.base_url, model: 'scripted' } };
  writeFileSync(home.paths.config, JSON.stringify({ default_provider: 'up', providers }));
  const mcpServers = { shelf: scripted([], { trusted: true }) };
  writeFileSync(join(folder, 'mcp.json'), JSON.stringify({ mcpServers }));
  let life = await serve(home);
  try {
    const asked: ResponseCreateParamsStreaming = {
      model: 'up/scripted',
      background: true,
      stream: true,
      tools: [{ type: 'mcp', server_label: 'shelf', allowed_tools: ['echo'] }],
    };
    const input = "shelf__echo 'blue'";
    const first = lastOf(
      await read(await (await clientOf(life)).responses.create({ ...asked, input })),
    );
    await life.kill();
    life = await serve(home);
    let client = await clientOf(life);
    assert.equal((await client.responses.retrieve(first.id)).output, first.output);
    const wish = first.output.at(-1);
    if (wish?.type !== 'mcp_approval_request') throw new Error(`it asks with ${wish?.type}`);
    const answer = {
      type: 'mcp_approval_response',
      approval_request_id: wish.id,
      approve: true,
    } as const;
    const more = { ...asked, input: [answer], previous_response_id: first.id };
    const at = 'response.mcp_call.in_progress';
    const heard = await read(await client.responses.create(more), { life, at });
    life = await serve(home);
    client = await clientOf(life);
    const [begun, after] = [heard[0], heard.at(-1)?.sequence_number ?? 0];
    const id = begun?.type === 'response.created' ? begun.response.id : '';
    const options = { stream: true, starting_after: after } as const;
    heard.push(...(await read(await client.responses.retrieve(id, options))));
    assert.equal(
      heard.map((event) => event.sequence_number),
      heard.map((_, index) => index),
    );
    const second = lastOf(heard);
    const [call] = second.output;
    assert.is(call?.type === 'mcp_call' && call.output, 'blue');
    const { output, output_text } = await client.responses.retrieve(id);
    assert.equal([output, output_text], [second.output, 'The tool said: blue']);
    assert.equal(await read(await client.responses.retrieve(id, { stream: true })), heard);
  } finally {
    await life.kill();
    await home.close();
    await upstream.stop();
  }
});

test.run();
