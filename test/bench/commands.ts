import { AS_SHIPPED, makeHome, PROGRAM } from '../helpers/svc.ts';
import { execute } from './lib/execute.ts';
import { findProgram } from './lib/peers.ts';
import { Pm2 } from './lib/pm2.ts';
import { Report } from './lib/report.ts';
import { takeTurns, timed } from './lib/turns.ts';

/**
 * Time and CPU of short commands against `node -e 0`: `npm run bench commands [rounds]`. The
 * daemon is warm. `svc run` asks the built-in model. `pm2 ping` asks the daemon of pm2.
 */

const FLOOR = 'node -e 0';
const rounds = Number(process.argv[2] ?? 20);
const report = new Report('commands');
const home = makeHome({ ...AS_SHIPPED, SVC_ENGINE_THREADS: '1' });
const commands = [
  ['version'],
  ['status'],
  ['health'],
  ['health', '--source', 'socket'],
  ['health', '--source', 'grpc'],
  ['logs', '--tail', '5'],
  ['run', 'How do I start the daemon?', '--no-start'],
  ['runs', 'list'],
  ['model', 'list'],
  ['provider', 'list'],
  ['--help'],
];
const ways: Record<string, () => Promise<number>> = {
  [FLOOR]: () => timed(() => execute(process.execPath, ['-e', '0'], home.env)),
  ...Object.fromEntries(
    commands.map((words) => [
      `svc ${words[0] === 'run' ? 'run "…"' : words.join(' ')}`,
      () => timed(() => execute(process.execPath, [PROGRAM, ...words], home.env)),
    ]),
  ),
};
const ollama = findProgram('ollama');
if (ollama.path === null) report.addMissing({ way: 'ollama', how: ollama.how });
else {
  const { path } = ollama;
  ways['ollama --version'] = () => timed(() => execute(path, ['--version'], home.env));
}
const pm2 = Pm2.find(report);
if (pm2 !== null) ways['pm2 ping'] = () => timed(() => pm2.ping());
const started = await home.svc(['start']);
if (started.code !== 0) throw new Error(started.stderr);
try {
  await takeTurns(report, { what: 'one command', unit: 'ms', rounds, floor: FLOOR, ways });
} finally {
  await home.svc(['stop', '--force']);
  await home.close();
  pm2?.close();
}
report.print();
