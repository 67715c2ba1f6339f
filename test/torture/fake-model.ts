import { setTimeout as delay } from 'node:timers/promises';
import { type Exchange, Upstream } from '../helpers/upstream.ts';

/**
 * A provider on loopback whose answer depends only on the prompt.
 * `fake <name> <pieces> <ms>` gives that many pieces, that far apart. `fails` refuses the first
 * request; `breaks` cuts the connection.
 */
export async function startFakeModel(): Promise<Upstream> {
  const refused = new Set<string>();
  return Upstream.start(async (exchange) => {
    if (exchange.received.path.endsWith('/models'))
      return exchange.reply(200, { object: 'list', data: [{ id: 'fake', object: 'model' }] });
    const { messages } = exchange.json as { messages: { content: string }[] };
    const prompt = messages.at(-1)?.content ?? '';
    if (prompt.endsWith('fails') && !refused.has(prompt)) {
      refused.add(prompt);
      return exchange.reply(503, { error: { message: 'busy' } });
    }
    await answer(exchange, prompt).catch(() => {});
  });
}

/** The whole answer to a prompt. */
export function fakeAnswer(prompt: string): string {
  return piecesOf(prompt).join('');
}

async function answer(exchange: Exchange, prompt: string): Promise<void> {
  const pieces = piecesOf(prompt);
  const pause = Number(prompt.split(' ')[3]);
  let gone = false;
  void exchange.closed.then(() => {
    gone = true;
  });
  exchange.open();
  for (const [index, piece] of pieces.entries()) {
    if (gone) return;
    if (prompt.endsWith('breaks') && index > pieces.length / 2)
      return void exchange.socket.destroy();
    await exchange.text(piece);
    if (pause > 0) await delay(pause);
  }
  await exchange.finish();
  await exchange.usage(3, pieces.length);
  await exchange.done();
}

function piecesOf(prompt: string): string[] {
  const [, name = '', count = '0'] = prompt.split(' ');
  return Array.from(
    { length: Number(count) },
    (_, index) => `${name}:${index}${index % 7 === 0 ? ' é日🙂' : ''}\n`,
  );
}
