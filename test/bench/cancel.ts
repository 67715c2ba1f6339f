import { request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { connect } from '../../src/transport/control/client.ts';
import { AS_SHIPPED, makeHome } from '../helpers/svc.ts';
import type { Exchange } from '../helpers/upstream.ts';
import { waitFor } from '../helpers/wait.ts';
import { addModels } from '../torture/answers.ts';
import { enginePid, serve } from '../torture/daemon.ts';
import { cpuMs } from './lib/process.ts';
import { Report } from './lib/report.ts';
import { startUpstream, useUpstream } from './lib/upstream.ts';

/**
 * Time to cancel a streaming run: `npm run bench cancel [rounds]`.
 *
 * At a remote provider: until the upstream socket is closed, against a bare client of `node:http`
 * that ends its request; and until the answer to the request. At the local engine: until that
 * answer, with a check that the engine no longer computes. The shortest request over the local
 * socket is measured in the same rounds.
 */

const IDLE = 'CPU of the engine after it';
const rounds = Number(process.argv[2] ?? 40);
const report = new Report('cancel');
let exchange: Exchange | null = null;
const upstream = await startUpstream(async (one) => {
  await one.text('first');
  exchange = one;
});
const home = makeHome({ ...AS_SHIPPED, SVC_ENGINE_THREADS: '1' });
addModels(home);
useUpstream(home, upstream);
const life = await serve(home);
const client = await connect(home.paths.socket);
const CLOSED = 'upstream socket closed';
const ANSWERED = 'answer';
const BARE = 'bare node:http';
const HEALTH = 'health over the socket';
const floors: Record<string, string> = { [CLOSED]: BARE, [ANSWERED]: HEALTH };
const times: Record<string, Record<string, number[]>> = {
  [CLOSED]: { [BARE]: [], svc: [] },
  [ANSWERED]: { [HEALTH]: [], 'svc, remote': [], 'svc, local engine': [] },
  [IDLE]: { svc: [] },
};
const add = (what: string, way: string, value: number) => times[what]?.[way]?.push(value);

for (let round = 0; round < rounds; round += 1) {
  await timed(HEALTH, () => client.call('health'));
  add(CLOSED, BARE, await endBareRequest());
  exchange = null;
  const run = await client.call('run.start', { prompt: 'x', provider: 'fake' });
  const open = await waitFor('the upstream streams', () => exchange as Exchange | null);
  await streams(run.id);
  const began = performance.now();
  const closed = open.closed.then(() => add(CLOSED, 'svc', performance.now() - began));
  await timed('svc, remote', () => client.call('run.cancel', { id: run.id }));
  await closed;

  const local = await client.call('run.start', {
    prompt: 'x',
    provider: 'local',
    model: 'slow',
    max_tokens: 900,
    temperature: 0.8,
  });
  await streams(local.id);
  await timed('svc, local engine', () => client.call('run.cancel', { id: local.id }));
  const pid = await enginePid(life);
  const before = cpuMs(pid);
  await delay(100);
  add(IDLE, 'svc', cpuMs(pid) - before);
}
for (const [what, ways] of Object.entries(times))
  for (const [way, values] of Object.entries(ways)) {
    const floor = floors[what];
    const unit = what === IDLE ? 'ms of CPU in 100 ms' : 'ms';
    report.add({ what, unit, way, values, ...(floor === undefined ? {} : { floor }) });
  }
client.close();
await life.stop(0);
await upstream.stop();
await home.close();
report.print();

/** Asks for an answer, in the way given. */
async function timed(way: string, work: () => Promise<unknown>): Promise<void> {
  const began = performance.now();
  await work();
  add(ANSWERED, way, performance.now() - began);
}

/** Milliseconds until the upstream loses the connection of a client that ends its request. */
async function endBareRequest(): Promise<number> {
  exchange = null;
  const asked = request(`${upstream.base_url}/chat/completions`, { method: 'POST', agent: false });
  asked.on('error', () => undefined).end('{}');
  const open = await waitFor('the upstream streams', () => exchange as Exchange | null);
  const began = performance.now();
  asked.destroy();
  await open.closed;
  return performance.now() - began;
}

function streams(id: string): Promise<unknown> {
  return waitFor(
    'the run streams',
    async () => (await client.call('run.get', { id })).state === 'streaming',
    { every_ms: 2 },
  );
}
