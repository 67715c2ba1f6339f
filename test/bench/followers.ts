import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { connect } from '../../src/transport/control/client.ts';
import { makeHome } from '../helpers/svc.ts';
import { chunk } from '../helpers/upstream.ts';
import { waitFor } from '../helpers/wait.ts';
import { startDaemon } from './lib/daemon.ts';
import { cpuMs } from './lib/process.ts';
import { Report } from './lib/report.ts';
import { PIECE, startStreaming, useUpstream } from './lib/upstream.ts';

/**
 * Many WebSocket followers of one run, one of them stuck, against a bare broadcast of `ws`:
 * `npm run bench followers [followers] [pieces a second]`. The two take turns. It reports the
 * messages that arrive, and the CPU of the server for each thousand. Both ways put the pieces that
 * they read together into one message.
 */

const followers = Number(process.argv[2] ?? 1000);
const rate = Number(process.argv[3] ?? 50);
const ROUNDS = 3;
const WINDOW_MS = 5_000;
const FLOOR = 'bare ws';
const report = new Report('followers');

const { upstream, open } = await startStreaming();
const pacing = setInterval(() => {
  for (const exchange of open)
    exchange.response.write(`data: ${JSON.stringify(chunk({ content: PIECE }))}\n\n`);
}, 1000 / rate);

const results = { [FLOOR]: makeResults(), svc: makeResults() };
for (let round = 0; round < ROUNDS; round += 1) {
  await measure(results[FLOOR], bare);
  await measure(results.svc, daemon);
}
clearInterval(pacing);
await upstream.stop();
for (const [way, { arrived, cpu }] of Object.entries(results)) {
  const what = `${followers} followers, ${rate} pieces a second`;
  report.add({ what, unit: 'messages/s', way, values: arrived, floor: FLOOR });
  report.add({ what: `${what}, CPU`, unit: 'ms/1000 messages', way, values: cpu, floor: FLOOR });
}
report.print();

interface Results {
  arrived: number[];
  cpu: number[];
}

function makeResults(): Results {
  return { arrived: [], cpu: [] };
}

interface Server {
  pid: number;
  url: string;
  token: string;
  /** Called when all clients are connected. */
  begin(): void;
  stop(): Promise<void>;
}

async function measure(results: Results, start: () => Promise<Server>): Promise<void> {
  const server = await start();
  const clients = script('followers', [server.url, String(followers), server.token]);
  await line(clients);
  server.begin();
  const count = async () => {
    clients.stdin?.write('\n');
    return Number(await line(clients));
  };
  await delay(1000);
  const [before, cpu, began] = [await count(), cpuMs(server.pid), performance.now()];
  await delay(WINDOW_MS);
  const [arrived, ms] = [(await count()) - before, performance.now() - began];
  results.arrived.push((arrived * 1000) / ms);
  results.cpu.push(((cpuMs(server.pid) - cpu) * 1000) / arrived);
  await end(clients);
  await server.stop();
  for (const exchange of open) exchange.socket.destroy();
}

async function bare(): Promise<Server> {
  const child = script('bare-broadcast', [upstream.base_url]);
  const url = `ws://127.0.0.1:${await line(child)}`;
  const begin = () => child.stdin?.write('\n');
  return { pid: child.pid ?? 0, url, token: '', begin, stop: () => end(child) };
}

async function daemon(): Promise<Server> {
  const home = makeHome({ SVC_LOG_LEVEL: 'warn', SVC_MODEL: 'none' });
  const limits = {
    connections: 2 * followers,
    address_connections: 2 * followers,
    event_followers: 2 * followers,
  };
  useUpstream(home, upstream, { default_provider: 'fake', limits });
  const { life, http, token } = await startDaemon(home);
  const client = await connect(home.paths.socket);
  const { id } = await client.call('run.start', { prompt: 'x' });
  await waitFor(
    'it streams',
    async () => (await client.call('run.get', { id })).state === 'streaming',
  );
  client.close();
  return {
    pid: life.pid,
    url: `${http.replace('http', 'ws')}/v1/events?follow=1&stream=${id}`,
    token,
    begin: () => {},
    stop: async () => {
      await life.kill();
      await home.close();
    },
  };
}

function script(name: string, args: readonly string[]): ChildProcess {
  const file = fileURLToPath(new URL(`./lib/${name}.ts`, import.meta.url));
  return spawn(process.execPath, [file, ...args], { stdio: ['pipe', 'pipe', 'inherit'] });
}

async function line(child: ChildProcess): Promise<string> {
  if (child.stdout === null) throw new Error('the process has no output');
  const [text] = (await once(child.stdout, 'data')) as [Buffer];
  return text.toString().trim();
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}
