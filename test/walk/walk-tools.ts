import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import * as assert from 'uvu/assert';
import { scripted } from '../helpers/tool-servers.ts';
import type { Walked } from './edges.ts';
import { Harness, type Settings, waitLong } from './harness.ts';

/** Scenarios of runs whose calls svc carries out, with real tool servers. */

/** What a call of `put` takes here: it never ends by itself. */
const FOREVER = { COUNT_FILE: '/dev/null', WORK_MS: '2e9' };
const PROVIDERS = { up: {}, narrow: { max_runs: 1 } };
const SERVERS = ['free', 'careful', 'safe', 'held'];
/** Calls of `held` are decided when the test says so. */
const RULES = { echo: 'allow', put: 'deny' };

interface Server {
  name: string;
  state: string;
  pid: number | null;
}

/** A harness whose daemons have tool servers. */
export class ToolHarness {
  readonly base: Harness;
  private readonly gate: string;

  private constructor(base: Harness) {
    this.base = base;
    this.gate = join(base.home.folder, 'gate');
  }

  static async build(
    settings: Settings = {},
    servers?: Record<string, object>,
  ): Promise<ToolHarness> {
    const harness = new ToolHarness(await Harness.build(settings, { providers: PROVIDERS }));
    harness.release();
    harness.write(
      servers ?? {
        free: scripted(['reports'], { policy: 'allow', tools: { put: 'deny' } }),
        careful: scripted(),
        safe: scripted(['reports'], { policy: 'allow', trusted: true }, FOREVER),
        held: scripted(['held', harness.gate], { tools: RULES }),
      },
    );
    return harness;
  }

  write(mcpServers: Record<string, object>): void {
    const file = join(dirname(this.base.home.paths.config), 'mcp.json');
    writeFileSync(file, JSON.stringify({ mcpServers }), { mode: 0o600 });
  }

  async server(name: string): Promise<Server> {
    const { servers } = (await this.base.get('/v1/mcp')) as { servers: Server[] };
    const found = servers.find((each) => each.name === name);
    assert.ok(found, name);
    return found;
  }

  untilServer(name: string, ...states: string[]): Promise<Server> {
    const ask = async () => {
      const server = await this.server(name);
      return states.includes(server.state) && server;
    };
    return waitLong(`${name} is ${states.join(' or ')}`, ask, 20);
  }

  /** What `svc mcp test` asks: it does not wait for a server that has failed. */
  async test(name: string): Promise<number> {
    return (await this.base.post(`/v1/mcp/${name}/test`)).status;
  }

  /** Kills the process of a server that is ready. */
  async killServer(name: string): Promise<void> {
    const { pid } = await this.untilServer(name, 'ready.idle', 'ready.busy');
    process.kill(pid as number, 'SIGKILL');
    // One that is needed may have come up again before it is asked.
    await waitLong(`${name} has ended`, async () => (await this.server(name)).pid !== pid, 20);
  }

  run(prompt: string, fields: Record<string, unknown> = {}): Promise<string> {
    return this.base.run(prompt, { tool_servers: [...SERVERS, 'free/put', 'held/put'], ...fields });
  }

  async runUntil(state: string, prompt: string, fields = {}): Promise<string> {
    const id = await this.run(prompt, fields);
    await this.base.untilRun(id, state);
    return id;
  }

  /**
   * A run whose first turn waits for a person. Then `held` does not list its tools, and the person
   * allows what leads to these calls.
   */
  async afterGate(calls: string, fields = {}): Promise<string> {
    const id = await this.runUntil(
      'awaiting_approval',
      `call=careful__count then ${calls}`,
      fields,
    );
    rmSync(this.gate, { force: true });
    await this.killServer('held');
    await this.decide(id, 1, 'allow');
    return id;
  }

  /** The server `held` lists its tools. */
  release(): void {
    if (!existsSync(this.gate)) writeFileSync(this.gate, '');
  }

  async decide(id: string, call: number, decision: string): Promise<void> {
    const { status, body } = await this.base.post(`/v1/approvals/${id}.${call}`, { decision });
    if (status === 200) return;
    const why = await this.base.get(`/v1/runs/${id}/why`);
    assert.is(status, 200, `${decision} of call ${call}: ${JSON.stringify([body, why])}`);
  }

  /** Waits until the run has so many events of a type. */
  async untilEvents(id: string, counts: Record<string, number>): Promise<void> {
    await waitLong(`${id} has ${JSON.stringify(counts)}`, async () => {
      const { events } = (await this.base.get(`/v1/runs/${id}/why`)) as {
        events: { type: string }[];
      };
      return Object.entries(counts).every(
        ([name, count]) => events.filter(({ type }) => type === `run.tool_${name}`).length >= count,
      );
    });
  }

  async finish(id: string): Promise<void> {
    await this.base.untilRun(id, 'completed');
  }
}

/** Every decision by policy and by a person, and every result. */
async function decidedCalls(): Promise<Walked> {
  const harness = await ToolHarness.build({ LIMIT_APPROVAL_MS: 600_000 });
  await harness.base.start('ready');
  for (const prompt of ['call=free__count call=free__echo', 'call=free__put'])
    await harness.finish(await harness.run(prompt));
  const denied = await harness.runUntil(
    'awaiting_approval',
    'call=careful__count call=careful__put',
  );
  await harness.decide(denied, 1, 'deny');
  assert.is((await harness.base.show(denied)).state, 'awaiting_approval');
  await harness.decide(denied, 2, 'deny');
  await harness.finish(denied);

  // A person has to decide, and another call is decided or ends meanwhile.
  for (const [call, end] of [
    ['put', 'awaiting_approval'],
    ['echo', 'awaiting_approval'],
  ] as const) {
    const id = await harness.afterGate(`call=careful__put call=held__${call}`);
    await harness.untilEvents(id, { requested: 2 });
    harness.release();
    await harness.base.untilRun(id, end);
    await harness.decide(id, 2, 'deny');
    await harness.finish(id);
  }
  for (const [call, person] of [
    ['put', null],
    ['echo', null],
    ['count', 'deny'],
  ] as const) {
    const id = await harness.afterGate(`call=free__die call=held__${call}`);
    await harness.untilEvents(id, { lost: 1 });
    harness.release();
    await harness.base.untilRun(id, 'awaiting_decision');
    if (person !== null) await harness.decide(id, 3, person);
    await harness.decide(id, 2, 'skip');
    await harness.finish(id);
    await harness.finish(await harness.run('call=free__echo'));
  }
  const asked = 'call=free__die call=careful__count';
  for (const [first, second] of [
    ['allow', 'skip'],
    ['skip', 'deny'],
  ] as const) {
    const id = await harness.runUntil('awaiting_decision', asked);
    if (first === 'allow') {
      await harness.decide(id, 2, 'allow');
      await harness.base.untilRun(id, 'awaiting_decision');
      await harness.decide(id, 1, second);
    } else {
      await harness.decide(id, 1, 'skip');
      assert.is((await harness.base.show(id)).state, 'awaiting_approval');
      await harness.decide(id, 2, second);
    }
    await harness.finish(id);
    await harness.finish(await harness.run('call=free__echo'));
  }
  // Both are cut off; then one is carried out again, and ends as before. A call that its server
  // did not see is not lost.
  const both = await harness.run('call=free__wait call=free__wait');
  await harness.untilEvents(both, { reported: 2 });
  await harness.killServer('free');
  await harness.base.untilRun(both, 'awaiting_decision');
  await harness.decide(both, 2, 'skip');
  assert.is((await harness.base.show(both)).state, 'awaiting_decision');
  await harness.decide(both, 1, 'repeat');
  await harness.untilEvents(both, { started: 3, reported: 3 });
  await harness.killServer('free');
  await harness.base.untilRun(both, 'awaiting_decision');
  await harness.decide(both, 1, 'skip');
  await harness.finish(both);
  // A person decides while another call works.
  const works = await harness.run('call=free__die call=safe__put call=free__put');
  await harness.untilEvents(works, { lost: 1, started: 2, reported: 1 });
  await harness.decide(works, 1, 'skip');
  // What may be repeated is repeated.
  await harness.killServer('safe');
  await harness.untilEvents(works, { lost: 2, started: 3 });
  await harness.base.cancel(works);
  for (const [state, prompt] of [
    ['awaiting_approval', 'call=careful__count'],
    ['awaiting_decision', 'call=free__die'],
  ] as const)
    await harness.base.cancel(await harness.runUntil(state, prompt));
  harness.base.signal('SIGTERM');
  await harness.base.gone(0);
  return harness.base.leave();
}

/**
 * A run whose calls are in every state at once. One works at a time, so the one after it has to
 * wait.
 */
async function inEveryState(harness: ToolHarness, fields = {}): Promise<string> {
  const id = await harness.afterGate(
    'call=free__die call=free__wait call=free__count call=careful__count call=held__echo',
    fields,
  );
  await harness.untilEvents(id, { requested: 5, allowed: 4, started: 3, lost: 1 });
  return id;
}

const ONE_CALL = { LIMIT_TOOL_CALLS_AT_ONCE: 1 };

/** What becomes of the calls of a run that ends early. */
async function endsOfCalls(): Promise<Walked> {
  const harness = await ToolHarness.build(ONE_CALL);
  await harness.base.start('ready');
  await harness.base.cancel(await inEveryState(harness));
  harness.release();
  await harness.finish(await harness.run('call=free__echo'));
  const late = await inEveryState(harness, { timeout_ms: 30_000 });
  await harness.base.untilRun(late, 'timed_out');
  harness.release();
  // The second wrong call ends the run.
  const wrong = '{"text":5} call=free__echo';
  const { error } = await harness.base.untilRun(
    await harness.run(`${wrong} then ${wrong} call=careful__count`),
    'failed',
  );
  assert.is(error?.code, 'tool_call_invalid');
  harness.base.signal('SIGTERM');
  await harness.base.gone(0);
  return harness.base.leave();
}

/**
 * A run that times out while another one has the place of its next turn. A busy machine needs more
 * time until it waits for the place.
 */
async function lateInPlace(harness: ToolHarness): Promise<string> {
  const { base } = harness;
  for (let timeout_ms = 8000; ; timeout_ms *= 2) {
    const id = await harness.run('call=careful__count', { provider: 'narrow', timeout_ms });
    await waitLong('it waits for a person, or no more', async () =>
      ['awaiting_approval', 'timed_out'].includes((await base.show(id)).state),
    );
    const before = await base.run('hold', { provider: 'narrow', recovery: 'restart' });
    await base.untilRun(before, 'starting');
    const { status } = await base.post(`/v1/approvals/${id}.1`, { decision: 'allow' });
    if (status === 200) return id;
    await base.cancel(before);
  }
}

/** The daemon dies in each state of a run with calls. */
async function killedCalls(): Promise<Walked> {
  const harness = await ToolHarness.build();
  const { base } = harness;
  await base.start('ready');
  const waits = await harness.runUntil('awaiting_approval', 'call=careful__count');
  const lost = await harness.runUntil('awaiting_decision', 'call=free__die');
  const cut = await harness.run('call=free__wait');
  const repeated = await harness.run('call=safe__put');
  for (const id of [cut, repeated]) await harness.untilEvents(id, { started: 1 });
  // Their calls have ended, and another run has the place of their next turn.
  const narrow = { provider: 'narrow', timeout_ms: 600_000 };
  const next = [
    await harness.runUntil('awaiting_approval', 'call=careful__count', narrow),
    await harness.runUntil('awaiting_approval', 'call=careful__count', narrow),
    await lateInPlace(harness),
  ];
  for (const id of next.slice(0, 2)) {
    await harness.decide(id, 1, 'allow');
    await base.untilRun(id, 'continuing');
  }
  const [stays = '', cancelled = '', late = ''] = next;
  await base.cancel(cancelled);
  await base.untilRun(late, 'timed_out');
  await base.kill();

  await base.start('running.accepting');
  await harness.finish(stays);
  for (const [id, state] of [
    [waits, 'awaiting_approval'],
    [lost, 'awaiting_decision'],
    [cut, 'awaiting_decision'],
    [repeated, 'calling'],
  ] as const)
    assert.is((await base.show(id)).state, state);
  await harness.untilEvents(repeated, { started: 2 });
  await harness.decide(waits, 1, 'allow');
  await harness.finish(waits);
  await base.kill();
  return base.leave();
}

/** The log does not keep what was asked: the next boot cannot go on. */
async function callsNotKept(): Promise<Walked> {
  const harness = await ToolHarness.build({ ...ONE_CALL, HISTORY_PROMPTS: 'omit' });
  await harness.base.start('ready');
  const ids = [
    await harness.runUntil('awaiting_approval', 'call=careful__count'),
    await harness.runUntil('awaiting_decision', 'call=free__die'),
    await inEveryState(harness),
  ];
  await harness.base.kill();
  await harness.base.start('ready');
  for (const id of ids) assert.is((await harness.base.show(id)).state, 'interrupted');
  await harness.base.kill();
  return harness.base.leave();
}

export const toolScenarios = [decidedCalls, endsOfCalls, killedCalls, callsNotKept];
