import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeGguf } from '../fixtures/models/make-gguf.ts';
import { AS_SHIPPED, makeHome } from '../helpers/svc.ts';
import { busily } from './lib/busy.ts';
import { askChat } from './lib/chat.ts';
import { startDaemon } from './lib/daemon.ts';
import { Report } from './lib/report.ts';
import { takeTurns } from './lib/turns.ts';

/**
 * Time of an answer with default threads and with a thread for each core, against one thread: `npm
 * run bench threads [rounds]`. The machine is as it is, and then has a busy process on each core.
 */

const rounds = Number(process.argv[2] ?? 7);
const FLOOR = 'one thread';
const report = new Report('threads');
const folder = mkdtempSync(join(tmpdir(), 'svc-bench-'));
const made = join(folder, 'made.gguf');

interface Asked {
  what: string;
  model: string;
  prompt: string;
  max_tokens: number;
}
const asked: Asked[] = [
  { what: 'svc-mini', model: 'svc-mini', prompt: 'How do I start the daemon?', max_tokens: 64 },
  { what: 'a model of 70 MB', model: 'made', prompt: 'Say twenty words.', max_tokens: 16 },
];

try {
  makeGguf(made, { width: 512, layers: 7, context: 2048 });
  for (const one of asked) await compare(one);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
report.print();

async function compare({ what, ...question }: Asked): Promise<void> {
  const cores = availableParallelism();
  const daemons = {
    [FLOOR]: await start({ SVC_ENGINE_THREADS: '1' }, question),
    'default threads': await start({}, question),
    'a thread for each core': await start({ SVC_ENGINE_THREADS: String(cores) }, question),
  };
  const ways = Object.fromEntries(Object.entries(daemons).map(([way, { ask }]) => [way, ask]));
  for (const busy of [0, cores]) {
    await busily(busy, () =>
      takeTurns(report, {
        what: `an answer of ${what}, ${busy} busy processes beside it`,
        unit: 'ms',
        rounds,
        floor: FLOOR,
        ways,
      }),
    );
  }
  for (const { stop } of Object.values(daemons)) await stop();
}

async function start(env: NodeJS.ProcessEnv, question: Omit<Asked, 'what'>) {
  const home = makeHome({ ...AS_SHIPPED, SVC_LOG_LEVEL: 'warn', ...env });
  mkdirSync(home.paths.models, { recursive: true, mode: 0o700 });
  copyFileSync(made, join(home.paths.models, 'made.gguf'));
  const { chat, stop } = await startDaemon(home);
  return { ask: async () => (await askChat(chat, question)).whole_ms, stop };
}
