import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/errors.ts';
import { logEvents } from '../../../src/observability/log-lines/log-lines.ts';
import type { Log } from '../../../src/ports/log.ts';
import { callingModel, settled } from '../../helpers/calling-model.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import { finish, output, ScriptedProvider, untilAborted } from '../../helpers/scripted-provider.ts';
import { ScriptedServers } from '../../helpers/scripted-servers.ts';
import { turns } from '../../helpers/turns.ts';
import { waitFor } from '../../helpers/wait.ts';

const SECRET = 'the colour of the vault';

/** A runtime whose lines are kept, each with its level. */
async function boot(script: ScriptedProvider['script'], limits = {}) {
  const far = new ScriptedProvider('far', script);
  const world = await bootRuntime({
    local: new ScriptedProvider('local', []),
    remote: { far: { port: far, kind: 'cloud' } },
    limits: { probe_failures: 2, ...limits },
  });
  const lines: string[] = [];
  const keep = (level: string) => (_: object, message: string) =>
    void lines.push(`${level} ${message}`);
  const log: Log = { debug() {}, info: keep('info'), warn: keep('warn'), error: keep('error') };
  logEvents(world.kernel, world.daemon, log);
  const start = async () =>
    (await world.runtime.runs.start({ prompt: SECRET, provider: 'far', model: 'm' }, 'cli 7')).id;
  const ended = (id: string) => waitFor('its end', () => !world.kernel.instances.has(id));
  return { ...world, far, lines, start, ended };
}

test('a run has two lines: who asked for what, and how it ended, without its texts', async () => {
  const { lines, clock, start, ended } = await boot([
    output(SECRET, 1),
    async () => {
      await turns();
      clock.advance(2000);
    },
    output(SECRET, 2),
    { type: 'finish', finish_reason: 'length', usage: { input_tokens: 12, output_tokens: 9 } },
  ]);
  const id = await start();
  await ended(id);
  assert.equal(lines, [
    `info ${id} accepted: far/m (cloud), cli 7`,
    `info ${id} completed in 2 s: 12 tokens in, 9 tokens out, 4 a second, length`,
  ]);
  assert.not.match(lines.join(), SECRET);
});

test('the time of a run is apart from its waits for a person', async () => {
  const lines: string[] = [];
  const keep = (_: object, message: string) => void lines.push(message);
  const servers = new ScriptedServers({
    'files/write': { run: () => ({ text: 'written', is_error: false }) },
  });
  const local = callingModel([['files__write', '{}']]);
  const { runtime, kernel, clock, daemon } = await bootRuntime({ local, servers });
  logEvents(kernel, daemon, { debug() {}, info: keep, warn: keep, error: keep });
  const { id } = await runtime.runs.start({ prompt: 'go', tool_servers: ['files'] }, 'test');
  await waitFor('the approval', () => runtime.approvals.list().length === 1);
  clock.advance(540_000);
  await runtime.approvals.decide(`${id}.1`, { decision: 'allow' }, 'a person');
  await settled(kernel, id);
  const end = `${id} completed in 0 s (and waited 540 s for a person): 2 tokens in`;
  assert.ok(lines.at(-1)?.startsWith(end), lines.at(-1));
});

test('a failed attempt says when the next one is, and a failure is in one line', async () => {
  const failed = new SvcError('provider_failed', 'far failed (status 500).', { retryable: true });
  const { lines, clock, start, ended } = await boot([failed], { run_attempts: 2 });
  const id = await start();
  await waitFor('the first failure', () => lines.length === 2);
  clock.advance(600);
  await ended(id);
  assert.equal(lines, [
    `info ${id} accepted: far/m (cloud), cli 7`,
    `warn ${id} failed in attempt 1 and is tried again in 0.5 s: far failed (status 500).`,
    `warn ${id} failed after 0.6 s: far failed (status 500).`,
  ]);
});

test('a provider that answers again is said once', async () => {
  const failed = new SvcError('provider_unreachable', 'far failed.', { retryable: false });
  const { far, lines, clock, start, ended } = await boot([failed]);
  for (const _ of [1, 2]) await ended(await start());
  clock.advance(10_000);
  far.script = [output('yes'), finish()];
  for (const _ of [1, 2]) await ended(await start());
  const about = lines.filter((line) => / provider far /.test(line));
  assert.equal(about, [
    'warn provider far is unavailable: far failed.',
    'info provider far is available again',
  ]);
});

test('a model that is not asked for a while is said once', async () => {
  const busy = new SvcError('provider_busy', 'far: too many requests.', { retryAfterMs: 60_000 });
  const { lines, start, ended } = await boot([busy]);
  for (const _ of [1, 2]) await ended(await start());
  const about = lines.filter((line) => / model far\/m /.test(line));
  assert.equal(about, ['warn model far/m is not asked for a while: far: too many requests.']);
});

test('a stop says how many runs it waits for, and a cancelled run how far it came', async () => {
  const { lines, runtime, start, ended } = await boot((_, signal) => [
    output('a', 1),
    untilAborted(signal),
  ]);
  const id = await start();
  await waitFor('the output', async () => (await runtime.runs.get(id)).output === 'a');
  await runtime.lifecycle({ type: 'stop_requested', mode: 'drain', timeout_ms: 5000 }, 'signal');
  await runtime.runs.cancel(id, 'x');
  await ended(id);
  assert.equal(lines.slice(1), [
    'info stopping, asked by signal: draining 1 run, for 5 s at most; a second signal stops it at once',
    `info ${id} cancelled after 0 s: 1 tokens out`,
  ]);
});

test.run();
