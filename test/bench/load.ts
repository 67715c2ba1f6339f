import { existsSync, readFileSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type ControlClient, connect } from '../../src/transport/control/client.ts';
import { AS_SHIPPED, makeHome } from '../helpers/svc.ts';
import { chunk } from '../helpers/upstream.ts';
import { waitFor } from '../helpers/wait.ts';
import { serve } from '../torture/daemon.ts';
import { works } from '../torture/disk.ts';
import { Report } from './lib/report.ts';
import { quantile } from './lib/statistics.ts';
import { startStreaming, useUpstream } from './lib/upstream.ts';

/**
 * Durable events a second, and the delay of the event loop: `npm run bench load [seconds]`.
 *
 * 1, 64 and 512 runs stream at one time, twenty pieces a second each. Where strace is installed, a
 * second part adds 10 ms to each sync of the log. The cost of durability is the difference of two
 * times: from the provider to a client of the daemon, and from the provider to its own client.
 */

const seconds = Number(process.argv[2] ?? 8);
const EVERY_MS = 50;
const FLOOR = 'the provider asked directly';
const report = new Report('load');
const SLOW = [
  'strace',
  '-f',
  '-qqq',
  '--seccomp-bpf',
  '-o',
  '/dev/null',
  '-e',
  'signal=none',
  '-e',
  'trace=fdatasync',
  '-e',
  'inject=fdatasync:delay_exit=10000',
];

/** Runs in the daemon. Reports the delays of its event loop since the last report. */
const PROBE = `
import { isMainThread } from 'node:worker_threads';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { writeFileSync, renameSync } from 'node:fs';
if (isMainThread && process.env.BENCH_LOOP) {
  const delays = monitorEventLoopDelay({ resolution: 1 });
  delays.enable();
  process.on('SIGUSR2', () => {
    const ms = (share) => delays.percentile(share) / 1e6;
    writeFileSync(process.env.BENCH_LOOP + '.new', JSON.stringify({ p50: ms(50), p99: ms(99), max: delays.max / 1e6, rss: process.memoryUsage.rss() }));
    renameSync(process.env.BENCH_LOOP + '.new', process.env.BENCH_LOOP);
    delays.reset();
  });
}`;

let sent = 0;
const { upstream, open } = await startStreaming();
const pacing = pace();

for (const wrapper of works('strace', '--seccomp-bpf', '-f', 'true') ? [[], SLOW] : [[]])
  for (const runs of [1, 64, 512]) await measure(runs, wrapper);
clearInterval(pacing);
await upstream.stop();
report.print();

async function measure(runs: number, wrapper: readonly string[]): Promise<void> {
  const home = makeHome({
    ...AS_SHIPPED,
    SVC_LIMIT_ACTIVE_RUNS: '2000',
    SVC_LIMIT_PROVIDER_RUNS: '1000',
    SVC_LIMIT_QUEUE_RUNS: '2000',
    SVC_LOG_LEVEL: 'warn',
    SVC_MODEL: 'none',
  });
  useUpstream(home, upstream, { default_provider: 'fake' });
  const loop = join(home.folder, 'loop.json');
  const env = {
    NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(PROBE)}`,
    BENCH_LOOP: loop,
  };
  const life = await serve(home, { env, wrapper });
  const client = await connect(home.paths.socket);
  try {
    const { id } = await client.call('run.start', { prompt: 'x' });
    for (let run = 1; run < runs; run += 1) await client.call('run.start', { prompt: 'x' });
    await waitFor('all stream', () => open.size === runs, { within_ms: 120_000 });
    const leave = new AbortController();
    const [through, direct] = [follow(client, id, leave.signal), followDirectly(leave.signal)];
    await delay(2000);
    await window(`${runs} runs, sync ${wrapper.length > 0 ? '+10 ms' : 'as it is'}`, {
      client,
      loop,
      latencies: [through, direct],
    });
    leave.abort();
  } finally {
    client.close();
    await life
      .ask((one) => one.call('lifecycle', { type: 'stop_requested', mode: 'force' }))
      .catch(() => {});
    for (const exchange of open) exchange.socket.destroy();
    await life.ended;
    await home.close();
  }
}

interface Window {
  client: ControlClient;
  loop: string;
  /** Of a follower of the daemon, and of a client of the provider. */
  latencies: readonly [number[], number[]];
}

async function window(what: string, { client, loop, latencies }: Window): Promise<void> {
  const { pid, seq } = await client.call('status');
  await probe(pid, loop);
  for (const list of latencies) list.length = 0;
  const [before, began] = [sent, performance.now()];
  await delay(seconds * 1000);
  const end = await client.call('status');
  const passed = (performance.now() - began) / 1000;
  const { p50, p99, max, rss } = await probe(pid, loop);
  const [through, direct] = latencies.map((list) => [...list]) as [number[], number[]];
  const add = (name: string, unit: string, values: number[], way = 'svc', floor?: string) =>
    report.add({ what: `${what}: ${name}`, unit, way, values, ...(floor ? { floor } : {}) });
  add('pieces sent', 'a second', [(sent - before) / passed], FLOOR);
  add('durable events', 'a second', [(end.seq - seq) / passed]);
  add('event loop delay, p50', 'ms', [p50]);
  add('event loop delay, p99', 'ms', [p99]);
  add('event loop delay, most', 'ms', [max]);
  for (const share of [0.5, 0.99]) {
    const name = `piece to client, p${share * 100}`;
    add(name, 'ms', [quantile(direct, share)], FLOOR);
    add(name, 'ms', [quantile(through, share)], 'svc', FLOOR);
  }
  add('resident memory', 'MiB', [rss / 2 ** 20]);
}

async function probe(
  pid: number,
  file: string,
): Promise<{ p50: number; p99: number; max: number; rss: number }> {
  rmSync(file, { force: true });
  process.kill(pid, 'SIGUSR2');
  await waitFor('the daemon reports its delays', () => existsSync(file));
  return JSON.parse(readFileSync(file, 'utf8'));
}

/**
 * Sends one piece to each stream in each period, evenly spread. A piece has the time it was sent.
 */
function pace(): NodeJS.Timeout {
  let turn = 0;
  let last = performance.now();
  return setInterval(() => {
    const streams = [...open];
    const due = ((performance.now() - last) / EVERY_MS) * streams.length;
    const count = Math.min(streams.length, Math.floor(due));
    if (count === 0) return;
    last += (count / Math.max(1, streams.length)) * EVERY_MS;
    if (performance.now() - last > EVERY_MS) last = performance.now();
    for (let index = 0; index < count; index += 1)
      streams[(turn + index) % streams.length]?.response.write(piece());
    turn = (turn + count) % Math.max(1, streams.length);
    sent += count;
  }, 1);
}

function piece(): string {
  return `data: ${JSON.stringify(chunk({ content: `<${performance.now().toFixed(2)}>` }))}\n\n`;
}

/** Milliseconds from sending to arrival of each piece. */
function note(latencies: number[], text: string): void {
  for (const [, at] of text.matchAll(/<(\d+\.\d+)>/g))
    latencies.push(performance.now() - Number(at));
}

function follow(client: ControlClient, id: string, signal: AbortSignal): number[] {
  const latencies: number[] = [];
  void (async () => {
    for await (const event of client.stream('run.follow', { id, from_seq: 0 }, { signal })) {
      if ('type' in event && event.type === 'run.output_appended')
        note(latencies, String(event.data.text));
    }
  })().catch(() => {});
  return latencies;
}

function followDirectly(signal: AbortSignal): number[] {
  const latencies: number[] = [];
  const asked = request(
    `${upstream.base_url}/chat/completions`,
    { method: 'POST', agent: false, signal },
    (response) => {
      response.setEncoding('utf8').on('data', (text: string) => note(latencies, text));
      response.on('error', () => {});
    },
  );
  asked.on('error', () => {});
  asked.end('{}');
  return latencies;
}
