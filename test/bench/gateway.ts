import { readFileSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { runtimeOf } from '../helpers/daemon.ts';
import { makeHome } from '../helpers/svc.ts';
import { chunk, Upstream } from '../helpers/upstream.ts';
import { serve } from '../torture/daemon.ts';

/**
 * The cost of the way through the daemon: `tsx test/bench/gateway.ts [requests]`.
 *
 * A server on loopback answers with 20 pieces at once. Clients ask it directly, and through
 * `POST /v1/chat/completions` of the daemon, in turns, 1, 16 and 64 at one time. The log is on and
 * each commit is synced. Prints the time to the first piece and to the end, and requests a second.
 * On Linux also the CPU time of the daemon for each request.
 */

const REQUESTS = Number(process.argv[2] ?? 400);
const ROUNDS = 3;
const PIECES = 20;
/** Fields of `/proc/<pid>/stat` after the name of the program, in ticks of a hundredth second. */
const [USER, SYSTEM, TICK_MS] = [11, 12, 10];

const upstream = await Upstream.start((exchange) => {
  if (exchange.received.path.endsWith('/models'))
    return exchange.reply(200, { object: 'list', data: [{ id: 'm' }] });
  exchange.open();
  const pieces = Array.from({ length: PIECES }, (_, index) => chunk({ content: `word ${index} ` }));
  const last = chunk({}, 'stop');
  const text = [...pieces, last].map((piece) => `data: ${JSON.stringify(piece)}\n\n`).join('');
  exchange.response.end(`${text}data: [DONE]\n\n`);
});
const home = makeHome({ SVC_LOG_LEVEL: 'warn', SVC_MODEL: 'none' });
writeFileSync(
  home.paths.config,
  JSON.stringify({
    default_provider: 'fake',
    limits: { provider_runs: 64, active_runs: 512, queue_runs: 512 },
    providers: { fake: { base_url: upstream.base_url, model: 'm' } },
  }),
);
const life = await serve(home);
const address = (await runtimeOf(home)).addresses.http ?? '';
const ways = {
  direct: { url: `${upstream.base_url}/chat/completions`, token: '' },
  svc: {
    url: `${address}/v1/chat/completions`,
    token: readFileSync(home.paths.token, 'utf8').trim(),
  },
};
type Way = keyof typeof ways;

interface Times {
  first: number[];
  whole: number[];
  seconds: number;
  /** Of the daemon, in milliseconds. */
  cpu: number;
}

for (const name of ['direct', 'svc'] as const) await round(name, 4, 64);
for (const clients of [1, 16, 64]) {
  const all: Record<Way, Times> = {
    direct: { first: [], whole: [], seconds: 0, cpu: 0 },
    svc: { first: [], whole: [], seconds: 0, cpu: 0 },
  };
  for (let turn = 0; turn < ROUNDS; turn += 1)
    for (const name of turn % 2 === 0
      ? (['direct', 'svc'] as const)
      : (['svc', 'direct'] as const)) {
      const times = await round(name, clients, Math.ceil(REQUESTS / ROUNDS));
      all[name].first.push(...times.first);
      all[name].whole.push(...times.whole);
      all[name].seconds += times.seconds;
      all[name].cpu += times.cpu;
    }
  for (const name of ['direct', 'svc'] as const) console.log(line(name, clients, all[name]));
  const added = (share: number) =>
    (at(all.svc.first, share) - at(all.direct.first, share)).toFixed(1);
  console.log(`     added to the first piece: p50 ${added(0.5)} ms, p99 ${added(0.99)} ms`);
}
await life
  .ask((one) => one.call('lifecycle', { type: 'stop_requested', mode: 'force' }))
  .catch(() => {});
await life.ended;
await home.close();
await upstream.stop();

async function round(name: Way, clients: number, count: number): Promise<Times> {
  const agent = new Agent({ keepAlive: true, maxSockets: clients });
  const times: Times = { first: [], whole: [], seconds: 0, cpu: 0 };
  const cpuBefore = cpuTime();
  let left = count;
  const began = performance.now();
  const client = async () => {
    for (; left > 0; ) {
      left -= 1;
      const { first, whole } = await ask(ways[name], agent);
      times.first.push(first);
      times.whole.push(whole);
    }
  };
  await Promise.all(Array.from({ length: clients }, client));
  times.seconds = (performance.now() - began) / 1000;
  times.cpu = cpuTime() - cpuBefore;
  agent.destroy();
  return times;
}

/** Milliseconds of CPU that the daemon has used so far, all threads together. */
function cpuTime(): number {
  if (process.platform !== 'linux') return Number.NaN;
  const stat = readFileSync(`/proc/${life.pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[USER]) + Number(fields[SYSTEM])) * TICK_MS;
}

function ask(
  { url, token }: { url: string; token: string },
  agent: Agent,
): Promise<{ first: number; whole: number }> {
  const body = JSON.stringify({
    model: 'm',
    stream: true,
    messages: [{ role: 'user', content: 'Say twenty words.' }],
  });
  return new Promise((resolve, reject) => {
    const began = performance.now();
    let first = 0;
    let text = '';
    const sent = request(
      url,
      {
        method: 'POST',
        agent,
        headers: {
          'content-type': 'application/json',
          ...(token === '' ? {} : { authorization: `Bearer ${token}` }),
        },
      },
      (response) => {
        response.setEncoding('utf8').on('data', (piece: string) => {
          text += piece;
          if (first === 0 && text.includes('word 0')) first = performance.now() - began;
        });
        response.on('error', reject).on('end', () => {
          if (response.statusCode !== 200 || !text.includes(`word ${PIECES - 1}`))
            reject(new Error(`${response.statusCode}: ${text.slice(0, 300)}`));
          else resolve({ first, whole: performance.now() - began });
        });
      },
    );
    sent.on('error', reject).end(body);
  });
}

function at(list: readonly number[], share: number): number {
  const sorted = [...list].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

function line(name: string, clients: number, { first, whole, seconds, cpu }: Times): string {
  const ms = (list: readonly number[], share: number) => at(list, share).toFixed(1).padStart(6);
  return [
    `${String(clients).padStart(3)} at once, ${name.padEnd(6)}`,
    `first piece p50 ${ms(first, 0.5)} p99 ${ms(first, 0.99)} ms`,
    `whole p50 ${ms(whole, 0.5)} p99 ${ms(whole, 0.99)} ms`,
    `${(whole.length / seconds).toFixed(0).padStart(5)} requests/s`,
    ...(name === 'svc' ? [`${(cpu / whole.length).toFixed(2)} ms CPU each`] : []),
  ].join('   ');
}
