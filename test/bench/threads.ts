import { type ChildProcess, spawn } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { makeHome } from '../helpers/svc.ts';
import { askChat } from './lib/chat.ts';
import { startDaemon } from './lib/daemon.ts';
import { Report } from './lib/report.ts';
import { takeTurns } from './lib/turns.ts';

/**
 * Time of an answer with default threads against one thread: `npm run bench threads [rounds]`. The
 * machine is as it is, and then has a busy process on each core.
 */

const rounds = Number(process.argv[2] ?? 7);
const FLOOR = 'one thread';
const report = new Report('threads');
const daemons = {
  [FLOOR]: await start({ SVC_ENGINE_THREADS: '1' }),
  'default threads': await start({}),
};
for (const busy of [0, availableParallelism()]) {
  const beside = Array.from({ length: busy }, () =>
    spawn(process.execPath, ['-e', 'for (;;) {}'], { stdio: 'ignore' }),
  );
  try {
    await takeTurns(report, {
      what: `an answer of svc-mini, ${busy} busy processes beside it`,
      unit: 'ms',
      rounds,
      floor: FLOOR,
      ways: Object.fromEntries(Object.entries(daemons).map(([way, { ask }]) => [way, ask])),
    });
  } finally {
    await Promise.all(beside.map(end));
  }
}
for (const { stop } of Object.values(daemons)) await stop();
report.print();

async function start(env: NodeJS.ProcessEnv) {
  const home = makeHome({ SVC_LOG_LEVEL: 'warn', ...env });
  const { chat, stop } = await startDaemon(home);
  return {
    ask: async () => {
      const question = { model: 'svc-mini', prompt: 'How do I start the daemon?' };
      return (await askChat(chat, question)).whole_ms;
    },
    stop,
  };
}

async function end(child: ChildProcess): Promise<void> {
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await ended;
}
