import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { configure, RealFleet } from '../helpers/fleet.ts';
import { postgresPrograms } from '../helpers/postgres.ts';
import { AS_SHIPPED, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { ask } from '../torture/http.ts';
import { startDaemon } from './lib/daemon.ts';
import { cpuMs } from './lib/process.ts';
import { Report } from './lib/report.ts';
import { startUpstream } from './lib/upstream.ts';

/**
 * What more nodes bring, and what one node on PostgreSQL costs: `npm run bench fleet [rounds]`.
 *
 * The provider takes 1 s for each answer, and each node has four places for it. All runs are sent
 * to the first node at once. One answer after the other at each place would take `rounds` seconds,
 * so that is 1.00 of linear. The database syncs each commit, as SQLite does. Then runs with a quick
 * provider show the price of a run on one node.
 */
const ROUNDS = Number(process.argv[2] ?? 5);
const PLACES = 4;
const QUICK_RUNS = 400;
const QUICK_PLACES = 16;
const SQLITE = 'SQLite';
const LIMITS = { queue_runs: 10_000 };
const report = new Report('fleet');

let think_ms = 1000;
const upstream = await startUpstream(async (exchange) => {
  await delay(think_ms);
  await exchange.answer('done');
});

if (postgresPrograms === null) {
  report.addMissing({ way: 'PostgreSQL', how: 'apt-get install postgresql' });
  await one(SQLITE);
} else {
  await one(SQLITE);
  for (const nodes of [1, 2, 4]) await several(nodes);
}
await upstream.stop();
report.print();

/** One node with SQLite. */
async function one(way: string): Promise<void> {
  const home = makeHome({ ...AS_SHIPPED, SVC_LOG_LEVEL: 'warn' });
  configure(home, { base_url: upstream.base_url, max_runs: PLACES, limits: LIMITS });
  const { life, stop } = await startDaemon(home);
  add('1 node', way, 1, await slow(home, 1));
  await stop();
  const quickHome = makeHome({ ...AS_SHIPPED, SVC_LOG_LEVEL: 'warn' });
  configure(quickHome, { base_url: upstream.base_url, max_runs: QUICK_PLACES, limits: LIMITS });
  const daemon = await startDaemon(quickHome);
  await quick(way, quickHome, daemon.life.pid);
  await daemon.stop();
  void life;
}

async function several(nodes: number): Promise<void> {
  const options = { base_url: upstream.base_url, limits: LIMITS, durable: true };
  const fleet = await RealFleet.start({ ...options, nodes, max_runs: PLACES });
  add(
    `${nodes} node${nodes === 1 ? '' : 's'}`,
    'PostgreSQL',
    nodes,
    await slow(fleet.home(0), nodes),
  );
  await fleet.close();
  if (nodes > 1) return;
  const other = await RealFleet.start({ ...options, nodes, max_runs: QUICK_PLACES });
  await quick('PostgreSQL', other.home(0), other.life(0).pid);
  await other.close();
}

type Home = ReturnType<typeof makeHome>;

/** Milliseconds until all runs have ended, and the share of the cores that was busy. */
async function slow(home: Home, nodes: number): Promise<{ ms: number; busy: number }> {
  think_ms = 1000;
  const [began, before] = [performance.now(), machine()];
  await startAll(home, PLACES * nodes * ROUNDS, 'client');
  await allEnded(home, PLACES * nodes * ROUNDS);
  const after = machine();
  const busy = (after.busy - before.busy) / (after.all - before.all);
  return { ms: performance.now() - began, busy };
}

function add(what: string, way: string, nodes: number, { ms, busy }: { ms: number; busy: number }) {
  const linear = PLACES * nodes;
  const rate = (linear * ROUNDS * 1000) / ms;
  report.add({ what, unit: 'runs/s', way, values: [rate] });
  report.add({ what: `${what}, of linear`, unit: 'share', way, values: [rate / linear] });
  report.add({ what: `${what}, cores busy`, unit: 'share', way, values: [busy] });
}

async function quick(way: string, home: Home, pid: number): Promise<void> {
  think_ms = 0;
  await startAll(home, 50, 'warm');
  await allEnded(home, 50);
  const [began, cpu] = [performance.now(), cpuMs(pid)];
  await startAll(home, QUICK_RUNS, 'client');
  await allEnded(home, QUICK_RUNS + 50);
  const rate = (QUICK_RUNS * 1000) / (performance.now() - began);
  const floor = way === SQLITE ? {} : { floor: SQLITE };
  const what = 'quick answers, 1 node';
  report.add({ what, unit: 'runs/s', way, values: [rate], ...floor });
  const each = (cpuMs(pid) - cpu) / QUICK_RUNS;
  report.add({ what: `${what}, CPU a run`, unit: 'ms', way, values: [each], ...floor });
}

/** Sixteen requests at one time. */
async function startAll(home: Home, runs: number, name: string): Promise<void> {
  let left = runs;
  const work = async () => {
    while (left > 0) {
      left -= 1;
      const body = { prompt: 'hello', client: `${name}-${left % 8}` };
      const answer = await ask(home, '/v1/runs', { method: 'POST', body });
      if (answer.status !== 202) throw new Error(answer.text);
    }
  };
  await Promise.all(Array.from({ length: 16 }, work));
}

async function allEnded(home: Home, runs: number): Promise<void> {
  await waitFor(
    'all runs have ended',
    async () => {
      const { json } = await ask(home, '/v1/usage');
      return json.total.runs >= runs;
    },
    { within_ms: 120_000, every_ms: 20 },
  );
}

/** CPU time of the whole machine. */
function machine(): { busy: number; all: number } {
  const times = (readFileSync('/proc/stat', 'utf8').split('\n')[0] ?? '')
    .trim()
    .split(/\s+/)
    .slice(1)
    .map(Number);
  const all = times.reduce((sum, time) => sum + time, 0);
  return { all, busy: all - (times[3] ?? 0) - (times[4] ?? 0) };
}
