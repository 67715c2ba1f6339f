import { type ControlClient, connect } from '../../src/transport/control/client.ts';
import { AS_SHIPPED, makeHome, PROGRAM } from '../helpers/svc.ts';
import { execute } from './lib/execute.ts';
import { findProgram } from './lib/peers.ts';
import { Pm2 } from './lib/pm2.ts';
import { Report } from './lib/report.ts';
import { takeTurns, timed } from './lib/turns.ts';

/**
 * Time and CPU of short commands against `node -e 0`: `npm run bench commands [rounds]`. The
 * daemon is warm. `svc run` asks the built-in model. `pm2 ping` asks the daemon of pm2. The work of
 * the daemon alone is what a program waits that runs already. The bare script is the least that a
 * command in Node.js costs which asks the daemon.
 */

const FLOOR = 'node -e 0';
const rounds = Number(process.argv[2] ?? 20);
const report = new Report('commands');
const home = makeHome({ ...AS_SHIPPED, SVC_ENGINE_THREADS: '1' });
const PROMPT = 'How do I start the daemon?';
const commands = [
  ['version'],
  ['status'],
  ['health'],
  ['health', '--source', 'socket'],
  ['health', '--source', 'grpc'],
  ['logs', '--tail', '5'],
  ['run', PROMPT, '--no-start'],
  ['runs', 'list'],
  ['model', 'list'],
  ['provider', 'list'],
  ['--help'],
];
const BARE = `const socket = require('node:net').connect(process.argv[1]);
socket.write('{"id":1,"method":"status"}\\n');
socket.once('data', () => process.exit());`;
const asked: Record<string, (client: ControlClient) => Promise<unknown>> = {
  'the daemon alone: status': (client) => client.call('status'),
  'the daemon alone: run': (client) =>
    client.stream('run.start', { prompt: PROMPT, stream: true }).result,
};
const ways: Record<string, () => Promise<number>> = {
  [FLOOR]: () => timed(() => execute(process.execPath, ['-e', '0'], home.env)),
  'a bare script that asks the socket': () =>
    timed(() => execute(process.execPath, ['-e', BARE, home.paths.socket], home.env)),
  ...Object.fromEntries(
    Object.entries(asked).map(([name, ask]) => [name, () => timed(() => overSocket(ask))]),
  ),
  ...Object.fromEntries(
    commands.map((words) => [
      `svc ${words[0] === 'run' ? 'run "…"' : words.join(' ')}`,
      () => timed(() => execute(process.execPath, [PROGRAM, ...words], home.env)),
    ]),
  ),
};
async function overSocket(ask: (client: ControlClient) => Promise<unknown>): Promise<void> {
  const client = await connect(home.paths.socket);
  try {
    await ask(client);
  } finally {
    client.close();
  }
}

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
