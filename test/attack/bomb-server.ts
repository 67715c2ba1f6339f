import { once } from 'node:events';
import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { type Asked, answerOf, listOf } from './bomb-tools.ts';
import { type Bomb, bombOfSlug, makeBomb, send } from './bombs.ts';

/**
 * A tool server over stdio that answers with a bomb. Its words: the bomb, the method that it
 * answers, and the size. `flood`: notifications without an end. `dies`: within its answer.
 * COUNT_FILE: it appends the id of each call.
 */
const [slug = '', method = '', mib = '1'] = process.argv.slice(2);

createInterface({ input: process.stdin }).on('line', async (line) => {
  const asked = JSON.parse(line) as Asked;
  if (asked.id === undefined) return;
  if (asked.method !== method) {
    process.stdout.write(`${JSON.stringify(answerOf(asked))}\n`);
    return;
  }
  const { COUNT_FILE } = process.env;
  if (COUNT_FILE !== undefined)
    appendFileSync(COUNT_FILE, `${asked.params?._meta?.['svc/call_id'] ?? ''}\n`);
  const list = (items: string) => listOf(method, asked.id, items);
  if (slug === 'dies') {
    process.stdout.write(list('{"type":"te').slice(0, -4), () => process.exit(9));
    return;
  }
  const bomb = slug === 'flood' ? FLOOD : makeBomb(bombOfSlug(slug), list, Number(mib));
  await send(bomb, async (bytes) => {
    if (!process.stdout.write(bytes)) await once(process.stdout, 'drain');
  });
  process.stdout.write('\n');
});
process.stdin.on('end', () => process.exit(0));

const NOTE =
  '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}';
const FLOOD: Bomb = { bytes: Buffer.from(`${NOTE}\n`.repeat(100)), isEndless: true };
