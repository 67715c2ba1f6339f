import * as assert from 'uvu/assert';
import { scripted } from '../helpers/tool-servers.ts';
import type { Walked } from './edges.ts';
import { ToolHarness } from './walk-tools.ts';

/** Scenarios of the tool servers themselves. */

const FREE = { policy: 'allow' };
/** So many failures in a row open the circuit. */
const TO_OPEN = 5;

/** Servers that work, rest, change their tools and are stopped. */
async function serversWork(): Promise<Walked> {
  const { x, deaf } = { x: scripted([], FREE), deaf: scripted(['deaf'], FREE) };
  const harness = await ToolHarness.build({ LIMIT_MCP_IDLE_MS: 2000 }, { x, deaf });
  const { base } = harness;
  await base.start('ready');
  const run = (prompt: string) => harness.run(prompt, { tool_servers: ['x'] });
  await base.untilRun(await run('call=x__change'), 'completed');
  assert.is(await harness.test('x'), 200);
  const busy = await run('call=x__wait');
  await harness.untilEvents(busy, { started: 1 });
  await harness.untilServer('x', 'ready.busy');
  await base.untilRun(await run('call=x__change'), 'completed');
  assert.is(await harness.test('x'), 200);
  // It is started in another way, and the call that it had is cut off.
  harness.write({ x: scripted([], FREE, { OTHER: '1' }), deaf });
  await harness.server('x');
  await base.untilRun(busy, 'awaiting_decision');
  await base.cancel(busy);
  // An idle one is stopped. One that does not end is killed.
  for (const [name, state] of [
    ['x', 'stopped'],
    ['deaf', 'failing'],
  ] as const) {
    assert.is(await harness.test(name), 200);
    await harness.untilServer(name, state, 'stopped');
  }
  await harness.untilServer('deaf', 'stopped');
  // The daemon stops while a server starts.
  harness.write({ x: scripted(['silent'], FREE) });
  const starts = base.post('/v1/mcp/x/test').catch(() => null);
  await harness.untilServer('x', 'starting');
  base.signal('SIGTERM');
  await starts;
  await base.gone(0);
  return base.leave();
}

/** Failures, until the circuit opens. */
async function serversFail(): Promise<Walked> {
  const harness = await ToolHarness.build(
    {},
    {
      absent: { command: 'no-such-program-of-svc' },
      away: { url: 'http://127.0.0.1:1/mcp' },
      dying: scripted(['dies-at-start']),
      idle: scripted(),
      busy: scripted([], FREE),
    },
  );
  const { base } = harness;
  await base.start('ready');
  assert.is(await harness.test('absent'), 502);
  await harness.untilServer('absent', 'open');
  for (let failures = 1; failures <= TO_OPEN; failures += 1) {
    for (const name of ['away', 'dying']) assert.is(await harness.test(name), 502);
    assert.is(await harness.test('idle'), 200);
    await harness.killServer('idle');
    assert.is(await harness.test('busy'), 200);
    const id = await harness.run('call=busy__die', { tool_servers: ['busy'] });
    await base.untilRun(id, 'awaiting_decision');
  }
  for (const name of ['away', 'dying', 'idle', 'busy']) await harness.untilServer(name, 'open');
  // It waits for its time, and a test does not.
  await harness.untilServer('absent', 'stopped');
  assert.is(await harness.test('absent'), 502);
  assert.is(await harness.test('absent'), 502);
  await base.kill();
  return base.leave();
}

/** The same of servers that do not come up in time, or do not end in time. */
async function serversAreLate(): Promise<Walked> {
  const harness = await ToolHarness.build(
    { LIMIT_MCP_START_MS: 1000 },
    { silent: scripted(['silent']), deaf: scripted(['deaf']) },
  );
  const { base } = harness;
  await base.start('ready');
  for (let failures = 1; failures <= TO_OPEN; failures += 1)
    assert.is(await harness.test('silent'), 502);
  await harness.untilServer('silent', 'open');
  await base.kill();
  await base.start('ready', { LIMIT_MCP_START_MS: 60_000, LIMIT_MCP_IDLE_MS: 10_000 });
  for (let failures = 1; failures < TO_OPEN; failures += 1) {
    assert.is(await harness.test('deaf'), 200);
    await harness.killServer('deaf');
  }
  assert.is(await harness.test('deaf'), 200);
  await harness.untilServer('deaf', 'open');
  await base.kill();
  return base.leave();
}

export const mcpScenarios = [serversWork, serversFail, serversAreLate];
