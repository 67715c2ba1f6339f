import { setTimeout as delay } from 'node:timers/promises';
import { connect } from '../../src/transport/control/client.ts';
import { makeHome } from '../helpers/svc.ts';
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
 * At a remote provider: until the upstream socket is closed, and until the answer to the request.
 * At the local engine: until that answer, with a check that the engine no longer computes.
 * The shortest request over the local socket is measured in the same rounds.
 */

const IDLE = 'CPU of the engine after it';
const rounds = Number(process.argv[2] ?? 40);
const report = new Report('cancel');
let exchange: Exchange | null = null;
const upstream = await startUpstream(async (one) => {
  await one.text('first');
  exchange = one;
});
const home = makeHome({ SVC_ENGINE_THREADS: '1' });
addModels(home);
useUpstream(home, upstream);
const life = await serve(home);
const client = await connect(home.paths.socket);
const times: Record<string, number[]> = {
  'a request over the socket': [],
  'upstream socket closed': [],
  'answer, remote': [],
  'answer, local engine': [],
  [IDLE]: [],
};
const add = (name: string, value: number) => times[name]?.push(value);

for (let round = 0; round < rounds; round += 1) {
  await timed('a request over the socket', () => client.call('health'));
  exchange = null;
  const run = await client.call('run.start', { prompt: 'x', provider: 'fake' });
  const open = await waitFor('the upstream streams', () => exchange as Exchange | null);
  await streams(run.id);
  const began = performance.now();
  const closed = open.closed.then(() => add('upstream socket closed', performance.now() - began));
  await timed('answer, remote', () => client.call('run.cancel', { id: run.id }));
  await closed;

  const local = await client.call('run.start', {
    prompt: 'x',
    provider: 'local',
    model: 'slow',
    max_tokens: 900,
    temperature: 0.8,
  });
  await streams(local.id);
  await timed('answer, local engine', () => client.call('run.cancel', { id: local.id }));
  const pid = await enginePid(life);
  const before = cpuMs(pid);
  await delay(100);
  add(IDLE, cpuMs(pid) - before);
}
for (const [what, values] of Object.entries(times))
  report.add({ what, unit: what === IDLE ? 'ms of CPU in 100 ms' : 'ms', way: 'svc', values });
client.close();
await life.stop(0);
await upstream.stop();
await home.close();
report.print();

async function timed(name: string, work: () => Promise<unknown>): Promise<void> {
  const began = performance.now();
  await work();
  add(name, performance.now() - began);
}

function streams(id: string): Promise<unknown> {
  return waitFor(
    'the run streams',
    async () => (await client.call('run.get', { id })).state === 'streaming',
    { every_ms: 2 },
  );
}
