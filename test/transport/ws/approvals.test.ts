import { once } from 'node:events';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { WebSocket } from 'ws';
import { callingModel, settled } from '../../helpers/calling-model.ts';
import { ScriptedServers } from '../../helpers/scripted-servers.ts';
import { waitFor } from '../../helpers/wait.ts';
import { BEARER } from '../http/boot.ts';
import { bootReal, type Real } from '../http/real.ts';

/** Calls that wait for a person, for clients of both kinds of WebSocket. */

const run = (args: unknown) => ({ text: `wrote ${JSON.stringify(args)}`, is_error: false });
const servers = () => new ScriptedServers({ 'files/write': { run } });
const script = () => callingModel([['files__write', '{"a":1}']]).script;

// biome-ignore lint/suspicious/noExplicitAny: messages of many forms
type Message = any;

async function connect(real: Real, path: string) {
  const socket = new WebSocket(`ws://${real.host}${path}`, { headers: BEARER });
  const heard: Message[] = [];
  socket.on('message', (data) => heard.push(JSON.parse(String(data))));
  socket.on('error', () => {});
  await once(socket, 'open');
  const leave = async () => {
    socket.terminate();
    await once(socket, 'close');
  };
  return { socket, heard, leave };
}

/** The daemon of the next boot, with the log of the one before. */
async function restart(real: Real, options: Parameters<typeof bootReal>[0]): Promise<Real> {
  await real.close();
  return bootReal({ ...options, store: real.store, boot_id: 'boot_2' });
}

for (const between of ['a new connection', 'a restart'])
  test(`the log has the request to approve once, over ${between}, and then how the run goes on`, async () => {
    const options = { script: script(), servers: servers() };
    let real = await bootReal(options);
    const { id } = await real.runtime.runs.start({ prompt: 'go', tool_servers: ['files'] }, 'x');
    const events = `/v1/events?follow=1&stream=${id}`;
    const first = await connect(real, `${events}&from=1`);
    const asks = ({ heard }: typeof first) =>
      heard.filter(({ type }) => type === 'run.tool_requested');
    await waitFor('the request', () => asks(first).length === 1);
    const [asked] = asks(first);
    assert.equal([asked.data.server, asked.data.tool], ['files', 'write']);
    const seen = first.heard.slice(0, first.heard.indexOf(asked) + 1);
    await first.leave();
    if (between === 'a restart') real = await restart(real, options);
    const next = await connect(real, `${events}&from=${asked.seq + 1}`);
    const path = `/v1/approvals/${id}.${asked.data.call}`;
    const allow = { method: 'POST', body: { decision: 'allow' } } as const;
    assert.is((await real.get(path, allow)).status, 200);
    await waitFor('the end', () => next.heard.at(-1)?.type === 'run.completed');
    assert.equal(asks(next), []);
    // Both connections together have what one has that comes late.
    const whole = await connect(real, `/v1/events?stream=${id}&from=1`);
    await once(whole.socket, 'close');
    assert.equal([...seen, ...next.heard], whole.heard);
    assert.equal(
      whole.heard.map(({ type }) => type).filter((type) => type.startsWith('run.tool_')),
      ['run.tool_requested', 'run.tool_allowed', 'run.tool_started', 'run.tool_finished'],
    );
    assert.equal(options.servers.begun, [`${id}.1`]);
    await next.leave();
    await real.close();
  });

for (const between of ['a new connection', 'a restart'])
  test(`a client of the Responses API approves over ${between}, and its run goes on`, async () => {
    const options = { script: script(), servers: servers() };
    let real = await bootReal(options);
    const tools = [{ type: 'mcp', server_label: 'files' }];
    const talk = async () => {
      const { socket, heard, leave } = await connect(real, '/v1/responses');
      const create = async (more: object) => {
        const from = heard.length;
        socket.send(JSON.stringify({ type: 'response.create', model: 'local/svc-mini', ...more }));
        const last = () => heard.slice(from).find(({ type }) => type === 'response.completed');
        await waitFor('the end of the response', () => last() !== undefined);
        return last().response;
      };
      return { create, leave };
    };
    const one = await talk();
    const first = await one.create({ tools, input: 'go' });
    const wish = first.output.at(-1);
    assert.equal([wish.type, wish.name], ['mcp_approval_request', 'write']);
    await one.leave();
    assert.equal(options.servers.begun, []);
    if (between === 'a restart') real = await restart(real, options);
    const two = await talk();
    const decision = { approval_request_id: wish.id, approve: true };
    const input = [{ type: 'mcp_approval_response', ...decision }];
    const answer = { tools, input, previous_response_id: first.id };
    const second = await two.create(answer);
    assert.equal(
      second.output.map(({ type }: Message) => type),
      ['mcp_call', 'message'],
    );
    assert.is(second.output[0].output, 'wrote {"a":1}');
    const id = first.id.replace('resp_', 'run_');
    await settled(real.kernel, id);
    // Sent again, it is no new decision.
    assert.equal((await two.create(answer)).output, second.output);
    assert.equal(options.servers.begun, [`${id}.1`]);
    await two.leave();
    await real.close();
  });

test.run();
