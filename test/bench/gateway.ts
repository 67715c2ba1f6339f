import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeHome } from '../helpers/svc.ts';
import { askChat, type Target } from './lib/chat.ts';
import { startDaemon } from './lib/daemon.ts';
import { findProgram, startServer } from './lib/peers.ts';
import { cpuMs } from './lib/process.ts';
import { Report } from './lib/report.ts';
import { quantile } from './lib/statistics.ts';
import { PIECES, startAnswering, useUpstream } from './lib/upstream.ts';
import { warmUp } from './lib/warm-up.ts';

/**
 * The cost of the way through the daemon, and through other gateways: `npm run bench gateway
 * [requests]`.
 *
 * A server on loopback answers with 20 pieces at once. Clients ask it directly and through each
 * gateway in turns, 1, 16 and 64 at one time. The log of the daemon is on, each commit synced.
 * Gateways without a log do less work. The CPU is that of the gateway for each request. The bare
 * proxies are the least that a gateway in Node.js costs, without a log and with one.
 */

const REQUESTS = Number(process.argv[2] ?? 400);
const ROUNDS = 5;
const LITELLM_KEY = 'sk-bench-of-this-machine-alone';
const FLOOR = 'the upstream directly';
const report = new Report('gateway');
const folder = mkdtempSync(join(tmpdir(), 'svc-bench-'));

const upstream = await startAnswering();

interface Way {
  target: Target;
  /** The process whose CPU counts; null: no process. */
  pid: number | null;
  stop(): Promise<void>;
}

interface Times {
  first: number[];
  rate: number[];
  cpu: number[];
}

const ways: Record<string, Way> = {
  [FLOOR]: {
    target: { url: `${upstream.base_url}/chat/completions`, token: null },
    pid: null,
    stop: async () => {},
  },
  ...(await startBare('a bare proxy')),
  ...(await startBare('a bare proxy with two synced writes', join(folder, 'written'))),
  svc: await startSvc(),
  ...(await startPortkey()),
  ...(await startLitellm()),
};
for (const way of Object.values(ways)) await warmUp(() => round(way, 16, 64));
for (const clients of [1, 16, 64]) {
  const found = Object.fromEntries(
    Object.keys(ways).map((name) => [name, { first: [], rate: [], cpu: [] } as Times]),
  );
  for (let turn = 0; turn < ROUNDS; turn += 1) {
    const names = Object.entries(ways);
    for (const [name, way] of turn % 2 === 0 ? names : names.toReversed()) {
      const one = await round(way, clients, Math.ceil(REQUESTS / ROUNDS));
      found[name]?.first.push(...one.first);
      found[name]?.rate.push(one.rate);
      if (one.cpu !== null) found[name]?.cpu.push(one.cpu);
    }
  }
  add(`${clients} at once`, found);
}
for (const { stop } of Object.values(ways)) await stop();
await upstream.stop();
rmSync(folder, { recursive: true, force: true });
report.print();

function add(what: string, found: Record<string, Times>): void {
  const direct = found[FLOOR]?.first ?? [];
  for (const [way, { first, rate, cpu }] of Object.entries(found)) {
    report.add({ what, unit: 'requests/s', way, values: rate, floor: FLOOR });
    if (way === FLOOR) report.add({ what: `${what}, first piece`, unit: 'ms', way, values: first });
    else {
      const added = (share: number) => [quantile(first, share) - quantile(direct, share)];
      report.add({ what: `${what}, added p50`, unit: 'ms', way, values: added(0.5) });
      report.add({ what: `${what}, added p99`, unit: 'ms', way, values: added(0.99) });
      report.add({ what: `${what}, CPU a request`, unit: 'ms', way, values: cpu });
    }
  }
}

async function round({ target, pid }: Way, clients: number, count: number) {
  const first: number[] = [];
  const [cpu, began] = [pid === null ? 0 : cpuMs(pid), performance.now()];
  let left = count;
  const client = async () => {
    for (; left > 0; ) {
      left -= 1;
      const answer = await askChat(target, { model: 'm', prompt: 'Say twenty words.' });
      if (!answer.text.includes(`word ${PIECES - 1}`)) throw new Error(`cut: ${answer.text}`);
      first.push(answer.first_ms);
    }
  };
  await Promise.all(Array.from({ length: clients }, client));
  const rate = (count * 1000) / (performance.now() - began);
  return { first, rate, cpu: pid === null ? null : (cpuMs(pid) - cpu) / count };
}

async function startSvc(): Promise<Way> {
  const home = makeHome({ SVC_LOG_LEVEL: 'warn', SVC_MODEL: 'none' });
  useUpstream(home, upstream, {
    default_provider: 'fake',
    limits: { provider_runs: 64, active_runs: 512, queue_runs: 512 },
  });
  const { chat, life, stop } = await startDaemon(home);
  return { target: chat, pid: life.pid, stop };
}

/** `written`: the file that it writes and syncs twice for each request. */
async function startBare(name: string, written?: string): Promise<Record<string, Way>> {
  const program = join(import.meta.dirname, 'lib', 'bare-proxy.ts');
  const { origin, pathname } = new URL(upstream.base_url);
  const { pid, url, stop } = await startServer({
    command: process.execPath,
    args: (port) => [program, String(port), origin, ...(written === undefined ? [] : [written])],
    probe: `${pathname}/models`,
  });
  return {
    [name]: { target: { url: `${url}${pathname}/chat/completions`, token: null }, pid, stop },
  };
}

async function startPortkey(): Promise<Record<string, Way>> {
  const { path, how } = findProgram('portkey');
  if (path === null) return missing('portkey', how);
  const running = await startServer({
    command: process.execPath,
    args: (port) => [path, `--port=${port}`, '--headless'],
    probe: '/',
  });
  const headers = { 'x-portkey-provider': 'openai', 'x-portkey-custom-host': upstream.base_url };
  return {
    portkey: {
      target: { url: `${running.url}/v1/chat/completions`, token: 'none', headers },
      pid: running.pid,
      stop: running.stop,
    },
  };
}

async function startLitellm(): Promise<Record<string, Way>> {
  const { path, how } = findProgram('litellm');
  if (path === null) return missing('litellm', how);
  const config = join(folder, 'litellm.yaml');
  const params = { model: 'openai/m', api_base: upstream.base_url, api_key: 'none' };
  // JSON is YAML too.
  writeFileSync(
    config,
    JSON.stringify({ model_list: [{ model_name: 'm', litellm_params: params }] }),
  );
  const running = await startServer({
    command: path,
    args: (port) => ['--config', config, '--host', '127.0.0.1', '--port', String(port)],
    env: () => ({
      LITELLM_LOCAL_MODEL_COST_MAP: 'True',
      LITELLM_LOG: 'ERROR',
      LITELLM_MASTER_KEY: LITELLM_KEY,
    }),
    probe: '/health/liveliness',
  });
  return {
    litellm: {
      target: { url: `${running.url}/v1/chat/completions`, token: LITELLM_KEY },
      pid: running.pid,
      stop: running.stop,
    },
  };
}

function missing(way: string, how: string): Record<string, Way> {
  report.addMissing({ way, how });
  return {};
}
