import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { makeHome, PROGRAM } from '../helpers/svc.ts';

/**
 * Time from start to the first ready answer, of the daemon and of a bare HTTP server, in turns.
 * Then the resident memory of both when idle. `tsx test/bench/start.ts [rounds]`.
 */

const BARE =
  "require('node:http').createServer((_, res) => res.end('ok')).listen(Number(process.argv[1]), '127.0.0.1')";
const rounds = Number(process.argv[2] ?? 15);
const PORT = 20_000 + (process.pid % 20_000);

const home = makeHome();
const daemon = () =>
  spawn(process.execPath, [PROGRAM, 'serve'], {
    env: { ...home.env, SVC_HTTP: `127.0.0.1:${PORT}` },
    stdio: 'ignore',
  });
const bare = () => spawn(process.execPath, ['-e', BARE, String(PORT)], { stdio: 'ignore' });

const times = { daemon: [] as number[], bare: [] as number[] };
const memory = { daemon: [] as number[], bare: [] as number[] };
for (let round = 0; round < rounds; round += 1) {
  for (const [name, start] of Object.entries({ daemon, bare }) as [
    'daemon' | 'bare',
    () => ChildProcess,
  ][]) {
    const began = performance.now();
    const child = start();
    await firstAnswer('/readyz');
    times[name].push(performance.now() - began);
    memory[name].push(residentBytes(child.pid ?? 0));
    child.kill('SIGTERM');
    await new Promise((resolve) => child.once('exit', resolve));
  }
}
await home.close();

const [d, b] = [median(times.daemon), median(times.bare)];
console.log(
  `start to ready   svc ${d.toFixed(0)} ms   bare HTTP server ${b.toFixed(0)} ms   ratio ${(d / b).toFixed(2)}`,
);
const [dm, bm] = [median(memory.daemon) / 2 ** 20, median(memory.bare) / 2 ** 20];
console.log(
  `resident memory  svc ${dm.toFixed(0)} MiB  bare HTTP server ${bm.toFixed(0)} MiB  ratio ${(dm / bm).toFixed(2)}  (at the first ready answer, without the engine process)`,
);

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

function residentBytes(pid: number): number {
  const match = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Number(match?.[1] ?? 0) * 1024;
}

function median(values: number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}
