import { setTimeout as delay } from 'node:timers/promises';
import { type Exchange, Upstream } from '../helpers/upstream.ts';

/** A provider whose answers take a while and come in pieces. It never fails. */
export async function startProvider(pieces: number, piece_ms: number): Promise<Upstream> {
  const answer = async (exchange: Exchange): Promise<void> => {
    if (exchange.received.path.endsWith('/models')) {
      exchange.reply(200, { data: [{ id: 'm' }] });
      return;
    }
    exchange.open();
    for (let piece = 0; piece < pieces; piece += 1) {
      await delay(piece_ms);
      await exchange.text(`word ${piece} `);
    }
    await exchange.finish();
    await exchange.usage(1, pieces);
    await exchange.done();
  };
  // A client that is killed closes its connections.
  return Upstream.start((exchange) => answer(exchange).catch(() => {}));
}
