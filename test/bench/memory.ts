import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { runtimeOf } from '../helpers/daemon.ts';
import { makeHome } from '../helpers/svc.ts';
import { chunk, Upstream } from '../helpers/upstream.ts';
import { enginePid, serve } from '../torture/daemon.ts';
import { askChat } from './lib/chat.ts';
import { cpuMs, residentMib } from './lib/process.ts';
import { Report } from './lib/report.ts';

/**
 * Resident memory of the daemon when idle and after many runs, and of the engine with svc-mini:
 * `npm run bench memory [runs]`. It also reports the CPU of the daemon a run.
 */

const runs = Number(process.argv[2] ?? 10_000);
const CLIENTS = 16;
const STEPS = 5;
const SETTLE_MS = 5_000;
const report = new Report('memory');
const upstream = await Upstream.start((exchange) => {
  if (exchange.received.path.endsWith('/models'))
    return exchange.reply(200, { object: 'list', data: [{ id: 'm' }] });
  exchange.open();
  const pieces = Array.from({ length: 20 }, (_, index) => chunk({ content: `word ${index} ` }));
  const text = [...pieces, chunk({}, 'stop')].map((one) => `data: ${JSON.stringify(one)}\n\n`);
  exchange.response.end(`${text.join('')}data: [DONE]\n\n`);
});
const home = makeHome({ SVC_LOG_LEVEL: 'warn', SVC_ENGINE_THREADS: '1' });
writeFileSync(
  home.paths.config,
  JSON.stringify({ providers: { fake: { base_url: upstream.base_url, model: 'm' } } }),
);
const life = await serve(home);
const url = `${(await runtimeOf(home)).addresses.http}/v1/chat/completions`;
const token = readFileSync(home.paths.token, 'utf8').trim();
const ask = (model: string) => askChat({ url, token }, { model, prompt: 'Say twenty words.' });

await delay(SETTLE_MS);
add('the idle daemon', residentMib(life.pid));
for (let step = 1; step <= STEPS; step += 1) {
  const [cpu, began] = [cpuMs(life.pid), performance.now()];
  let left = Math.ceil(runs / STEPS);
  const client = async () => {
    for (; left > 0; ) {
      left -= 1;
      await ask('fake/m');
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  const count = Math.ceil(runs / STEPS);
  const used = (cpuMs(life.pid) - cpu) / count;
  const rate = (count * 1000) / (performance.now() - began);
  const what = `runs ${count * (step - 1) + 1} to ${count * step}`;
  report.add({ what: `${what}, CPU a run`, unit: 'ms', way: 'svc', values: [used] });
  report.add({ what, unit: 'requests/s', way: 'svc', values: [rate] });
  await delay(SETTLE_MS);
  add(`the daemon after ${count * step} runs`, residentMib(life.pid));
}
await ask('local/svc-mini');
add('the engine with svc-mini', residentMib(await enginePid(life)));
await life.stop(0);
await upstream.stop();
await home.close();
report.print();

function add(what: string, mib: number): void {
  report.add({ what, unit: 'MiB', way: 'svc', values: [mib] });
}
