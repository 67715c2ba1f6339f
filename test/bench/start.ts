import { spawn } from 'node:child_process';
import { globSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { AS_SHIPPED, makeHome, type Outcome, PROGRAM } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { execute } from './lib/execute.ts';
import { Pm2 } from './lib/pm2.ts';
import { residentMib } from './lib/process.ts';
import { Report } from './lib/report.ts';
import { takeTurns, timed } from './lib/turns.ts';

/**
 * Time from start to the first ready answer, and resident memory then: `npm run bench start
 * [rounds]`. The floor is a bare HTTP server. The memory is without the engine process. A daemon
 * has been idle before, so there is compiled code of this build, as users have it.
 * Then the command that starts the daemon, against that of pm2.
 */

const BARE =
  "require('node:http').createServer((_, res) => res.end('ok')).listen(Number(process.argv[1]), '127.0.0.1')";
const FLOOR = 'bare node:http';
const NODE = 'node -e 0';
const rounds = Number(process.argv[2] ?? 15);
const PORT = 20_000 + (process.pid % 20_000);
const report = new Report('start');
const home = makeHome(AS_SHIPPED);
home.env.TMPDIR = home.folder;
const memory: Record<string, number[]> = { [FLOOR]: [], svc: [], pm2: [] };

const measure = async (way: string, args: readonly string[], env: NodeJS.ProcessEnv) => {
  const began = performance.now();
  const child = spawn(process.execPath, args, { env, stdio: 'ignore' });
  await firstAnswer('/readyz');
  const took = performance.now() - began;
  memory[way]?.push(residentMib(child.pid ?? 0));
  child.kill('SIGTERM');
  await new Promise((resolve) => child.once('exit', resolve));
  return took;
};
const env = { ...home.env, SVC_HTTP: `127.0.0.1:${PORT}` };
await keepCode();
await takeTurns(report, {
  what: 'start to ready',
  unit: 'ms',
  rounds,
  floor: FLOOR,
  ways: {
    [FLOOR]: () => measure(FLOOR, ['-e', BARE, String(PORT)], env),
    svc: () => measure('svc', [PROGRAM, 'serve'], env),
  },
});
const pm2 = Pm2.find(report);
await takeTurns(report, {
  what: 'a command starts the daemon',
  unit: 'ms',
  rounds,
  floor: NODE,
  ways: {
    [NODE]: () => timed(() => execute(process.execPath, ['-e', '0'], home.env)),
    'svc start': measureStart,
    ...(pm2 === null ? {} : { 'pm2 ping': () => measurePm2(pm2) }),
  },
});
pm2?.close();
for (const [way, values] of Object.entries(memory))
  if (values.length > 0)
    report.add({ what: 'resident memory when ready', unit: 'MiB', way, values, floor: FLOOR });
await home.close();
report.print();

/** Runs the daemon until it is idle for the first time, which is after 10 to 20 s. */
async function keepCode(): Promise<void> {
  const child = spawn(process.execPath, [PROGRAM, 'serve'], { env, stdio: 'ignore' });
  const isKept = () => globSync(join(home.folder, 'svc-*', 'code', '*-serve-*')).length > 0;
  await waitFor('the daemon keeps its compiled code', isKept);
  child.kill('SIGTERM');
  await new Promise((resolve) => child.once('exit', resolve));
}

async function measureStart(): Promise<number> {
  const took = await timed(async () => succeeded(await home.svc(['start'])));
  succeeded(await home.svc(['stop']));
  return took;
}

function succeeded({ code, stderr }: Outcome): void {
  if (code !== 0) throw new Error(stderr);
}

async function measurePm2(pm2: Pm2): Promise<number> {
  const took = await timed(() => pm2.ping());
  memory.pm2?.push(residentMib(pm2.pid));
  pm2.kill();
  return took;
}

async function firstAnswer(path: string): Promise<void> {
  for (;;) {
    const status = await new Promise<number>((resolve) => {
      const asked = request({ host: '127.0.0.1', port: PORT, path, agent: false }, (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      });
      asked.on('error', () => resolve(0));
      asked.end();
    });
    if (status === 200) return;
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}
