import { globSync, readFileSync, statSync } from 'node:fs';
import { makeHome } from '../helpers/svc.ts';
import { askChat } from './lib/chat.ts';
import { startDaemon } from './lib/daemon.ts';
import { cpuMs } from './lib/process.ts';
import { Report } from './lib/report.ts';
import { startAnswering, useUpstream } from './lib/upstream.ts';

/**
 * The cost of a long conversation: `npm run bench conversation [turns]`.
 *
 * A client sends all earlier messages with each turn of 5 kB. The upstream answers with a few
 * words. The log is compared with the new text: what the client had not sent before, and the
 * answers. The CPU is that of the daemon for each turn.
 */

const TURNS = Number(process.argv[2] ?? 200);
const TURN_CHARS = 5_000;
/** Turns at the beginning and at the end whose CPU is compared. */
const SOME = 10;

const DOCS = globSync('docs/**/*.md')
  .sort()
  .map((file) => readFileSync(file, 'utf8'))
  .join('');

const report = new Report('conversation');
const upstream = await startAnswering();
const home = makeHome({ SVC_LOG_LEVEL: 'warn', SVC_MODEL: 'none' });
useUpstream(home, upstream, { default_provider: 'fake' });
const { chat, life } = await startDaemon(home);
const earlier: { role: 'user' | 'assistant'; content: string }[] = [];
const cpu: number[] = [];
let new_chars = 0;
for (let turn = 0; turn < TURNS; turn += 1) {
  const prompt = textOf(turn);
  const before = cpuMs(life.pid);
  const { text } = await askChat(chat, { model: 'm', prompt, earlier });
  cpu.push(cpuMs(life.pid) - before);
  earlier.push({ role: 'user', content: prompt }, { role: 'assistant', content: text });
  new_chars += prompt.length + text.length;
}
await life.stop(0);
const bytes = statSync(home.paths.database).size;
const mean = (turns: readonly number[]) => turns.reduce((sum, one) => sum + one, 0) / turns.length;
report.add({
  what: `log after ${TURNS} turns of ${TURN_CHARS} characters`,
  unit: 'of the new text',
  way: 'svc',
  values: [bytes / new_chars],
});
report.add({
  what: 'a turn at the start',
  unit: 'ms CPU',
  way: 'svc',
  values: [mean(cpu.slice(SOME, 2 * SOME))],
});
report.add({
  what: 'a turn at the end',
  unit: 'ms CPU',
  way: 'svc',
  values: [mean(cpu.slice(-SOME))],
});
await home.close();
await upstream.stop();
report.print();

/** The next part of the documentation, which begins again at its end. */
function textOf(turn: number): string {
  const at = (turn * TURN_CHARS) % DOCS.length;
  return `${turn} ${(DOCS + DOCS).slice(at, at + TURN_CHARS)}`.slice(0, TURN_CHARS);
}
