import { statSync } from 'node:fs';
import { makeHome, PROGRAM } from '../helpers/svc.ts';
import { askChat } from './lib/chat.ts';
import { type Daemon, startDaemon } from './lib/daemon.ts';
import { execute } from './lib/execute.ts';
import { FREQUENT, RARE, writeLongLog } from './lib/long-log.ts';
import { childrenCpuMs, cpuMs, residentMib } from './lib/process.ts';
import { Report } from './lib/report.ts';
import { startAnswering, useUpstream } from './lib/upstream.ts';

/**
 * What the daemon and its commands cost while the log grows: `npm run bench growth [runs…]`. Each
 * log is written first: a million runs take some minutes and 4 GB of the temporary folder. The CPU
 * is that of the daemon for one question, or that of a whole command.
 */

const sizes = process.argv.slice(2).map(Number);
if (sizes.length === 0) sizes.push(1_000, 100_000);
const [floor] = sizes.map(wayOf);
/** The clock of a process has steps of 10 ms. */
const ROUNDS = 5;
const ASKED = 20;

const report = new Report('growth');

const questions: Record<string, (daemon: Daemon) => Promise<unknown>> = {
  status: ({ life }) => life.ask((client) => client.call('status')),
  health: ({ life }) => life.ask((client) => client.call('health')),
  'GET /v1/runs?limit=20': get('/v1/runs?limit=20'),
  'GET /v1/runs?limit=100': get('/v1/runs?limit=100'),
  'GET /v1/runs?state=failed': get('/v1/runs?state=failed'),
  'GET /v1/conversations?limit=20': get('/v1/conversations?limit=20'),
  'the turns of an old conversation': get(
    `/v1/runs?conversation=run_${'1'.padStart(26, '0')}&limit=20`,
  ),
  'search, a rare word': get(`/v1/runs/search?words=${RARE}`),
  'search, a frequent word': get(`/v1/runs/search?words=${FREQUENT}`),
  usage: get('/v1/usage?since=2020-01-01T00:00:00Z'),
  metrics: get('/metrics'),
  'the report of the console': get('/v1/runtime/health'),
  'a new run': ({ chat }) => askChat(chat, { model: 'm', prompt: 'How do I start the daemon?' }),
};

const upstream = await startAnswering();
for (const size of sizes) await measure(size);
await upstream.stop();
report.print();

async function measure(runs: number): Promise<void> {
  const home = makeHome({ SVC_LOG_LEVEL: 'warn', SVC_MODEL: 'none' });
  useUpstream(home, upstream, {
    default_provider: 'fake',
    history: { keep_days: null, keep_bytes: null },
  });
  const row = (what: string, unit: string, values: readonly number[]) =>
    report.add({ what, unit, way: wayOf(runs), values, ...(floor ? { floor } : {}) });
  const began = performance.now();
  await writeLongLog(home.paths, runs);
  row('the log is written', 's', [(performance.now() - began) / 1000]);
  row('the log', 'MiB', [statSync(home.paths.database).size / 2 ** 20]);
  await (await startDaemon(home)).life.stop(0);
  for (const args of [
    ['runs', 'list'],
    ['runs', 'search', RARE],
    ['usage'],
    ['runs', 'show', 'last'],
  ])
    row(
      `svc ${args.join(' ')} without a daemon`,
      'ms CPU',
      await times(ROUNDS, async () => {
        const before = childrenCpuMs();
        execute(process.execPath, [PROGRAM, ...args], home.env);
        return childrenCpuMs() - before;
      }),
    );
  row(
    'start to ready',
    'ms CPU',
    await times(ROUNDS, async () => {
      const { life } = await startDaemon(home);
      const used = cpuMs(life.pid);
      await life.stop(0);
      return used;
    }),
  );
  const daemon = await startDaemon(home);
  for (const [what, ask] of Object.entries(questions)) {
    await ask(daemon);
    row(
      what,
      'ms CPU',
      await times(ROUNDS, async () => {
        const before = cpuMs(daemon.life.pid);
        for (let asked = 0; asked < ASKED; asked += 1) await ask(daemon);
        return (cpuMs(daemon.life.pid) - before) / ASKED;
      }),
    );
  }
  row('memory', 'MiB', [residentMib(daemon.life.pid)]);
  await daemon.stop();
}

function get(path: string): (daemon: Daemon) => Promise<unknown> {
  return async ({ http, token }) => {
    const response = await fetch(http + path, { headers: { authorization: `Bearer ${token}` } });
    const text = await response.text();
    if (!response.ok) throw new Error(`${path}: ${response.status} ${text.slice(0, 300)}`);
  };
}

async function times(count: number, take: () => Promise<number>): Promise<number[]> {
  const values: number[] = [];
  for (let round = 0; round < count; round += 1) values.push(await take());
  return values;
}

function wayOf(runs: number): string {
  return `${runs.toLocaleString('en')} runs`;
}
