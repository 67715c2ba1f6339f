import { writeFileSync } from 'node:fs';
import type { Home } from '../../helpers/svc.ts';
import { chunk, type Exchange, Upstream } from '../../helpers/upstream.ts';

/** A model server on loopback with one model, `m`. `answer` gets each request for an answer. */
export function startUpstream(answer: (exchange: Exchange) => unknown): Promise<Upstream> {
  return Upstream.start((exchange) => {
    if (exchange.received.path.endsWith('/models'))
      return exchange.reply(200, { object: 'list', data: [{ id: 'm' }] });
    return answer(exchange.open());
  });
}

export const PIECES = 20;

/** It answers with twenty pieces, `word 0` to `word 19`, all at once. */
export function startAnswering(): Promise<Upstream> {
  const pieces = Array.from({ length: PIECES }, (_, index) => chunk({ content: `word ${index} ` }));
  const events = [...pieces, chunk({}, 'stop')].map((one) => `data: ${JSON.stringify(one)}\n\n`);
  const answer = `${events.join('')}data: [DONE]\n\n`;
  return startUpstream((exchange) => exchange.response.end(answer));
}

/** What one piece of a stream says. */
export const PIECE = 'a word ';

/** It leaves its answers open, for a measurement that sends the pieces. */
export async function startStreaming(): Promise<{ upstream: Upstream; open: Set<Exchange> }> {
  const open = new Set<Exchange>();
  const upstream = await startUpstream((exchange) => {
    open.add(exchange);
    void exchange.closed.then(() => open.delete(exchange));
  });
  return { upstream, open };
}

/** Makes it the provider `fake` of the daemon. */
export function useUpstream(home: Home, upstream: Upstream, settings: object = {}): void {
  const fake = { base_url: upstream.base_url, model: 'm' };
  writeFileSync(home.paths.config, JSON.stringify({ ...settings, providers: { fake } }));
}
