import { setTimeout as delay } from 'node:timers/promises';
import { AS_SHIPPED, makeHome } from '../helpers/svc.ts';
import { enginePid } from '../torture/daemon.ts';
import { askChat } from './lib/chat.ts';
import { startDaemon } from './lib/daemon.ts';
import { cpuMs, residentMib } from './lib/process.ts';
import { Report } from './lib/report.ts';
import { startAnswering, useUpstream } from './lib/upstream.ts';

/**
 * Resident memory of the daemon when idle and after many runs, and of the engine with svc-mini:
 * `npm run bench memory [runs]`. It also reports the CPU of the daemon a run.
 */

const runs = Number(process.argv[2] ?? 10_000);
const CLIENTS = 16;
const STEPS = 5;
/** The daemon frees memory after one whole interval of 10 s without work. */
const SETTLE_MS = 21_000;
const report = new Report('memory');
const upstream = await startAnswering();
const home = makeHome({ ...AS_SHIPPED, SVC_LOG_LEVEL: 'warn', SVC_ENGINE_THREADS: '1' });
useUpstream(home, upstream);
const { life, chat, stop } = await startDaemon(home);
const ask = (model: string) => askChat(chat, { model, prompt: 'Say twenty words.' });

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
await stop();
await upstream.stop();
report.print();

function add(what: string, mib: number): void {
  report.add({ what, unit: 'MiB', way: 'svc', values: [mib] });
}
