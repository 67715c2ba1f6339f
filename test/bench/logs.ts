import { spawnSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { AS_SHIPPED, makeHome, PROGRAM } from '../helpers/svc.ts';
import { Report } from './lib/report.ts';
import { takeTurns, timed } from './lib/turns.ts';

/**
 * The last 100 lines of a large log, without a daemon: `npm run bench logs [rounds] [megabytes]`.
 * The floor is `tail` and a start of Node.js, one after the other.
 */

const rounds = Number(process.argv[2] ?? 15);
const megabytes = Number(process.argv[3] ?? 1000);
const FLOOR = 'tail and node -e 0';
const report = new Report('logs');
const home = makeHome(AS_SHIPPED);
mkdirSync(home.paths.logs, { recursive: true, mode: 0o700 });
const file = join(home.paths.logs, 'svc.log');
write(file, megabytes);

await takeTurns(report, {
  what: `last 100 lines of ${megabytes} MB`,
  unit: 'ms',
  rounds,
  floor: FLOOR,
  ways: {
    [FLOOR]: () =>
      timed(() => {
        execute('tail', ['-n', '100', file]);
        execute(process.execPath, ['-e', '0']);
      }),
    svc: () => timed(() => execute(process.execPath, [PROGRAM, 'logs', '--tail', '100'])),
  },
});
await home.close();
report.print();

function write(path: string, size: number): void {
  const fd = openSync(path, 'w', 0o600);
  const lines = Array.from({ length: 5000 }, (_, index) => {
    const time = new Date(Date.UTC(2026, 0, 1) + index).toISOString();
    const msg = `run ${index} is completed, with some words about it`;
    return `${JSON.stringify({ level: 'info', time, msg, run_id: `run_${index}` })}\n`;
  }).join('');
  for (let written = 0; written < size * 1e6; ) written += writeSync(fd, lines);
  closeSync(fd);
}

function execute(command: string, args: readonly string[]): void {
  const { status, stderr, stdout } = spawnSync(command, args, { env: home.env, encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${status} ${stderr}`);
  if (args.includes('100') && stdout.split('\n').length < 100)
    throw new Error(`${command} printed too few lines`);
}
