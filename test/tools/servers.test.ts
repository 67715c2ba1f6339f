import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readMcpFile } from '../../src/config/mcp-file.ts';
import { defaultLimits } from '../../src/limits.ts';
import type { ToolInfo } from '../../src/ports/tools.ts';
import { ToolLister } from '../../src/tools/tool-list.ts';
import { failure } from '../helpers/failure.ts';
import { bootToolServers, scripted, type ToolServersHarness } from '../helpers/tool-servers.ts';
import { waitFor } from '../helpers/wait.ts';

const open: ToolServersHarness[] = [];
test.after.each(async () => {
  for (const harness of open.splice(0)) await harness.leave();
});

async function boot(...args: Parameters<typeof bootToolServers>): Promise<ToolServersHarness> {
  const harness = await bootToolServers(...args);
  open.push(harness);
  return harness;
}

/** A reference, as `mcp.json` has it. */
const ref = (name: string) => `\${${name}}`;

const soon = () => AbortSignal.timeout(60_000);
const call = (more: { id?: string; timeout_ms?: number; signal?: AbortSignal } = {}) => ({
  id: 'call_1',
  signal: soon(),
  timeout_ms: 30_000,
  ...more,
});

async function toolsOf(
  { servers }: ToolServersHarness,
  name = 'x',
): Promise<Map<string, ToolInfo>> {
  const tools = await servers.tools(name, soon());
  return new Map(tools.map((tool) => [tool.tool, tool]));
}

const isGone = (pid: number) => {
  try {
    process.kill(pid, 0);
    return readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ');
  } catch {
    return true;
  }
};

test('a server starts when its tools are asked for, and says what they are', async () => {
  const harness = await boot({ x: scripted() });
  assert.equal(harness.servers.names(), ['x']);
  assert.equal(harness.servers.list().servers[0]?.state, 'stopped');
  const tools = await toolsOf(harness);
  const echo = tools.get('echo') as ToolInfo;
  assert.equal([echo.read_only, echo.destructive, echo.idempotent], [true, false, false]);
  assert.equal([tools.get('count')?.destructive, tools.get('put')?.idempotent], [true, true]);
  assert.match(echo.digest, /^[0-9a-f]{64}$/);
  const [record] = harness.servers.list().servers;
  assert.equal([record?.state, record?.tools, record?.server], ['ready.idle', 9, 'scripted 1.0']);
  assert.equal(await harness.events(1), ['mcp.created', 'mcp.start_requested', 'mcp.ready']);
});

test('a call has its id, its result, and is counted once', async () => {
  const harness = await boot({});
  const count = join(harness.folder, 'count');
  harness.write({ x: scripted([], {}, { COUNT_FILE: count }) });
  const { servers } = harness;
  assert.equal(await servers.call('x', 'echo', { text: 'hello' }, call()), {
    text: 'hello',
    is_error: false,
  });
  await servers.call('x', 'count', {}, call({ id: 'call_7' }));
  assert.is(readFileSync(count, 'utf8'), 'call_7\n');
  const wrong = await servers.call('x', 'absent', {}, call());
  assert.ok(wrong.is_error && wrong.text.includes('no tool absent'), wrong.text);
});

test('a result over the bound is cut at a whole character, and says so', async () => {
  const harness = await boot({ x: scripted() }, { limits: { mcp_result_bytes: 1025 } });
  const { text } = await harness.servers.call('x', 'big', { bytes: 10_000_000 }, call());
  assert.ok(text.startsWith('é'.repeat(512)) && !text.includes('\ufffd'));
  assert.match(text.slice(512), /^\n\[svc: cut here; 10000000 bytes in all, 1025 at most\]$/);
});

test('a message over its bound ends the server, and the call is lost', async () => {
  const harness = await boot({ x: scripted() }, { limits: { mcp_message_bytes: 100_000 } });
  const error = await failure(harness.servers.call('x', 'big', {}, call()));
  assert.is(error.code, 'tool_lost');
  assert.not.ok(error.retryable);
  await waitFor('it has failed', () => harness.servers.list().servers[0]?.state === 'failing');
  assert.match(harness.servers.list().servers[0]?.reason ?? '', /more than 100000 bytes/);
});

test('an answer that is nested too deeply ends the server, instead of a wait', async () => {
  const harness = await boot({ x: scripted() });
  const { text } = await harness.servers.call('x', 'deep-answer', { levels: 1 }, call());
  assert.is(text, '{"type":"object","properties":{"in":{}}}');
  const error = await failure(harness.servers.call('x', 'deep-answer', { levels: 2000 }, call()));
  assert.is(error.code, 'tool_lost');
});

test('a server that dies during a call loses it, and the next call starts it again after a wait', async () => {
  const harness = await boot({ x: scripted() });
  const error = await failure(harness.servers.call('x', 'die', {}, call()));
  assert.is(error.code, 'tool_lost');
  assert.match(error.message, /called.*result is unknown/s);
  await waitFor('it has failed', () => harness.servers.list().servers[0]?.state === 'failing');
  const next = harness.servers.call('x', 'echo', { text: 'again' }, call());
  harness.clock.advance(500);
  assert.is((await next).text, 'again');
});

test('a call that is not answered in time is lost, and a cancelled one has the reason', async () => {
  const harness = await boot({ x: scripted() });
  const late = await failure(harness.servers.call('x', 'wait', {}, call({ timeout_ms: 50 })));
  assert.is(late.code, 'tool_lost');
  assert.match(late.message, /did not answer within 50 ms/);
  const control = new AbortController();
  const cancelled = harness.servers.call('x', 'wait', {}, call({ signal: control.signal }));
  await waitFor('it runs', () => harness.servers.list().servers[0]?.state === 'ready.busy');
  const reason = new Error('cancelled');
  control.abort(reason);
  assert.is(await cancelled.catch((error: unknown) => error), reason);
  assert.is((await harness.servers.call('x', 'echo', { text: 'on' }, call())).text, 'on');
});

test('a server that dies at its start says why, without its secrets; then the circuit opens', async () => {
  const env = { PATH: process.env.PATH, API_TOKEN: 'sk-very-secret' };
  const harness = await boot(
    { x: scripted(['dies-at-start'], {}, { API_TOKEN: ref('env:API_TOKEN') }) },
    { env },
  );
  for (let count = 1; count <= 5; count += 1) {
    const failing = failure(harness.servers.tools('x', soon()));
    harness.clock.advance(10_000);
    const error = await failing;
    assert.is(error.code, 'mcp_unavailable');
    assert.match(error.message, /ended with exit code 3\. It printed last: cannot open <secret>/);
    assert.ok(error.retryable && (error.retryAfterMs ?? 0) > 0);
  }
  assert.is(harness.servers.list().servers[0]?.state, 'open');
  const before = (await harness.events(1)).length;
  await failure(harness.servers.tools('x', soon()));
  assert.is((await harness.events(1)).length, before, 'an open circuit starts nothing');
  await failure(harness.servers.show('x', true, soon()));
  assert.ok((await harness.events(1)).length > before, 'a person who tests it does not wait');
  assert.not.ok(harness.lines.some((line) => line.includes('sk-very-secret')));
});

test('a program that does not exist opens the circuit at once', async () => {
  const harness = await boot({ x: { command: 'no-such-program-of-svc' } });
  const error = await failure(harness.servers.tools('x', soon()));
  assert.match(error.message, /cannot be started/);
  assert.not.ok(error.retryable);
  assert.is(harness.servers.list().servers[0]?.state, 'open');
});

test('a server that never answers is killed at its deadline', async () => {
  const harness = await boot({ x: scripted(['silent']) });
  const failing = failure(harness.servers.tools('x', soon()));
  await waitFor('it starts', () => harness.servers.list().servers[0]?.state === 'starting');
  harness.clock.advance(120_000);
  assert.match((await failing).message, /did not come up in time/);
});

test('endless output ends the server', async () => {
  const harness = await boot({ x: scripted(['endless']) }, { limits: { mcp_message_bytes: 1e6 } });
  const error = await failure(harness.servers.tools('x', soon()));
  assert.match(error.message, /a message has more than 1000000 bytes/);
});

test('between two answers the messages of a server have a bound, and all together have none', async () => {
  const notice = `${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/progress' })}\n`;
  const harness = await boot(
    { x: scripted(['endless', notice]), y: scripted() },
    { limits: { mcp_stream_bytes: 100_000 } },
  );
  const error = await failure(harness.servers.tools('x', soon()));
  assert.match(error.message, /it sends without an end: more than 100000 bytes, no answer/);
  for (let bytes = 0; bytes < 200_000; bytes += 60_000)
    await harness.servers.call('y', 'big', { bytes: 60_000 }, call());
  await waitFor('it is idle', () => harness.servers.list().servers[1]?.state === 'ready.idle');
});

test('pages without an end are bounded, and so is the number of tools', async () => {
  const harness = await boot(
    { pages: scripted(['pages']), many: scripted(['many']) },
    { limits: { mcp_tools: 20 } },
  );
  assert.is((await harness.servers.tools('pages', soon())).length, 0);
  assert.is((await harness.servers.tools('many', soon())).length, 20);
});

test('text of a server that is no message goes to the log', async () => {
  const harness = await boot({ x: scripted(['noise']) });
  await toolsOf(harness);
  assert.ok(harness.lines.some((line) => line.includes('not a message: Server is up!')));
});

test('a server that prints very much works, and its last line is known', async () => {
  const harness = await boot({ x: scripted(['talks']) });
  assert.is((await harness.servers.call('x', 'echo', { text: 'hi' }, call())).text, 'hi');
  await failure(harness.servers.call('x', 'die', {}, call()));
  await waitFor('it has failed', () => harness.servers.list().servers[0]?.state === 'failing');
  const { reason } = harness.servers.list().servers[0] ?? {};
  assert.is(reason, 'The tool server x ended with exit code 9. It printed last: Good bye.');
  const logged = harness.lines.filter((line) => line.startsWith('Still here.'));
  assert.is(logged.length, defaultLimits.mcp_log_lines);
});

test('names and schemas over a bound are left out with the reason', async () => {
  const harness = await boot({ x: scripted(['hostile']) });
  const shown = await harness.servers.show('x', false, soon());
  const names = shown.tools.map(({ name }) => name);
  assert.ok(names.includes('echo') && !names.includes('deep') && !names.includes('large'));
  assert.is(names.filter((name) => name === 'echo').length, 1);
  assert.is(shown.problems.length, 4);
  assert.not.match(JSON.stringify(shown.problems) + shown.server, /\\u001b|\u202e/);
});

test('a schema has at most 10,000 values and 32 levels', () => {
  const reasonFor = (schema: object) => {
    const lister = new ToolLister('x', defaultLimits);
    lister.add({ name: 'a', inputSchema: schema });
    return lister.list.left_out;
  };
  // The schema, its list, and a value after each comma.
  const values = (count: number) => ({
    type: 'object',
    enum: Array.from({ length: count - 3 }).fill(1),
  });
  const levels = (count: number) =>
    Array.from({ length: count - 1 }).reduce<object>((inner) => ({ not: inner }), {});
  assert.equal(reasonFor(values(10_000)), []);
  assert.equal(reasonFor(values(10_001)), ['the schema of a has more than 10000 values']);
  assert.equal(reasonFor(levels(32)), []);
  assert.equal(reasonFor(levels(33)), ['the schema of a has more than 32 levels']);
});

test('a server has no variable of the daemon but the named ones, and an own folder', async () => {
  const env = {
    PATH: process.env.PATH,
    HOME: '/tmp',
    SVC_TOKEN: 'svc-secret',
    OPENAI_API_KEY: 'sk-1',
    WANTED: 'wanted-value',
  };
  const named = {
    GIVEN: `x-${ref('WANTED')}`,
    STORED: ref('key:STORED'),
    USUAL: ref('ABSENT:-usual'),
  };
  const key = async (server: string, name: string) => `key of ${server} ${name}`;
  const harness = await boot({ x: scripted([], {}, named) }, { env, key });
  const { text } = await harness.servers.call('x', 'environment', {}, call());
  const seen = JSON.parse(text) as { env: Record<string, string>; cwd: string; pid: number };
  const { PWD: _, SHLVL: __, OLDPWD: ___, _: ____, ...variables } = seen.env;
  assert.equal(variables, {
    PATH: env.PATH,
    HOME: '/tmp',
    GIVEN: 'x-wanted-value',
    USUAL: 'usual',
    STORED: 'key of x STORED',
  });
  assert.is(seen.cwd, join(harness.folder, 'work', 'x'));
  assert.is(statSync(seen.cwd).mode & 0o777, 0o700);
  const shown = JSON.stringify(await harness.servers.show('x', false, soon()));
  assert.not.match(shown, /wanted-value|key of x/);
  assert.match(shown, /"env":\["GIVEN","STORED","USUAL"\]/);
});

for (const [what, value] of [
  ['a variable that is not set', ref('env:ABSENT')],
  ['a variable of svc', ref('SVC_TOKEN')],
  ['a stored key that there is not', ref('key:ABSENT')],
  ['an input of VS Code', ref('input:token')],
] as const)
  test(`${what} starts nothing, and the error says what to do`, async () => {
    const harness = await boot({ x: scripted([], {}, { A: value }) }, { env: { SVC_TOKEN: 'x' } });
    const error = await failure(harness.servers.tools('x', soon()));
    assert.is(error.code, 'mcp_unavailable');
    assert.not.ok(error.retryable);
    assert.match(error.hint, /svc restart|svc mcp set|mcp\.json/);
  });

test('the policy: ask, but for tools of a trusted server that only read', async () => {
  const rules = { put: 'deny', count: { policy: 'allow' } };
  const harness = await boot({
    x: scripted(),
    trusted: scripted([], { trusted: true, tools: rules }),
    open: scripted([], { policy: 'allow' }),
  });
  const { servers } = harness;
  const of = async (name: string) => {
    const tools = await toolsOf(harness, name);
    return ['echo', 'count', 'put'].map((tool) => {
      const info = tools.get(tool) as ToolInfo;
      return [servers.policy(name, info), servers.mayRepeat(name, info)];
    });
  };
  assert.equal(await of('x'), [
    ['ask', false],
    ['ask', false],
    ['ask', false],
  ]);
  assert.equal(await of('trusted'), [
    ['allow', true],
    ['allow', false],
    ['deny', true],
  ]);
  assert.equal(
    (await of('open')).map(([policy]) => policy),
    ['allow', 'allow', 'allow'],
  );
});

test('a tool that was allowed and changes is asked about again', async () => {
  const harness = await boot({ x: scripted() });
  const { servers } = harness;
  await servers.tools('x', soon());
  await servers.allowAlways('x', 'count');
  const before = (await toolsOf(harness)).get('count') as ToolInfo;
  assert.is(servers.policy('x', before), 'allow');
  await servers.call('x', 'change', {}, call());
  const after = await waitFor('it is listed again', async () => {
    const tool = (await toolsOf(harness)).get('count');
    return tool?.digest === before.digest ? null : tool;
  });
  assert.is(servers.policy('x', after), 'ask');
  assert.ok(servers.isChanged('x', after));
  assert.ok((await harness.events(1)).includes('mcp.tools_listed'));
  const shown = await servers.show('x', false, soon());
  assert.ok(shown.tools.find(({ name }) => name === 'count')?.changed);
  assert.is((await failure(servers.allowAlways('x', 'absent'))).code, 'mcp_unknown');
});

test('an idle server is stopped, and one that has calls is not', async () => {
  const harness = await boot({ x: scripted() });
  const { servers, clock } = harness;
  const control = new AbortController();
  const waiting = servers.call('x', 'wait', {}, call({ signal: control.signal })).catch(() => {});
  await waitFor('it runs', () => servers.list().servers[0]?.state === 'ready.busy');
  clock.advance(3_600_000);
  assert.is(servers.list().servers[0]?.state, 'ready.busy');
  control.abort();
  await waiting;
  await waitFor('it is idle', () => servers.list().servers[0]?.state === 'ready.idle');
  const pid = servers.list().servers[0]?.pid as number;
  clock.advance(300_000);
  await waitFor('it is stopped', () => servers.list().servers[0]?.state === 'stopped');
  await waitFor('its process is gone', () => isGone(pid));
});

test('one that does not end when it is asked to is killed, with what it started', async () => {
  const harness = await boot({ x: scripted(['deaf']) });
  await toolsOf(harness);
  const pid = harness.servers.list().servers[0]?.pid as number;
  harness.clock.advance(300_000);
  await waitFor('it is asked', () => harness.servers.list().servers[0]?.state === 'stopping');
  harness.clock.advance(5_000);
  await waitFor('its process is gone', () => isGone(pid));
  assert.match(harness.servers.list().servers[0]?.reason ?? '', /did not end/);
});

test('what a server started dies with it', async () => {
  const harness = await boot({});
  const place = join(harness.folder, 'pid');
  harness.write({ x: scripted(['child', place]) });
  await toolsOf(harness);
  const child = Number(readFileSync(place, 'utf8'));
  await failure(harness.servers.call('x', 'die', {}, call()));
  await waitFor('its child is gone', () => isGone(child));
});

test('the file is read again: a changed server starts again, a removed one ends', async () => {
  const harness = await boot({ x: scripted() });
  const { servers } = harness;
  await toolsOf(harness);
  const first = servers.list().servers[0]?.pid as number;
  harness.write({ x: scripted([], { trusted: true }) });
  assert.is(servers.list().servers[0]?.pid, first, 'a policy changes without a restart');
  harness.write({ x: scripted([], {}, { A: 'other' }) });
  assert.is((await servers.call('x', 'echo', { text: 'new' }, call())).text, 'new');
  await waitFor('the first one is gone', () => isGone(first));
  const second = servers.list().servers[0]?.pid as number;
  harness.write({});
  assert.equal(servers.names(), []);
  await waitFor('the second one is gone', () => isGone(second));
  assert.is((await failure(servers.tools('x', soon()))).code, 'mcp_unknown');
});

test('close leaves no process, and takes no more work', async () => {
  const harness = await boot({ x: scripted() });
  await toolsOf(harness);
  const pid = harness.servers.list().servers[0]?.pid as number;
  await harness.servers.stopAll();
  assert.ok(isGone(pid));
  assert.is((await failure(harness.servers.tools('x', soon()))).code, 'daemon_stopping');
});

test('a broken file leaves the servers as they were, and says so', async () => {
  const harness = await boot({ x: scripted() });
  harness.servers.names();
  const { writeFileSync } = await import('node:fs');
  writeFileSync(harness.file, '{ "mcpServers": ');
  const { servers, problem } = harness.servers.list();
  assert.equal([servers[0]?.name, problem !== null], ['x', true]);
  assert.ok(existsSync(harness.file));
  assert.throws(() => readMcpFile(harness.file), /mcp\.json:1:/);
});

test.run();
