import { statSync } from 'node:fs';
import { type Exchange, Upstream } from '../helpers/upstream.ts';
import { waitFor } from '../helpers/wait.ts';
import type { Victim } from './attack.ts';

/** Providers that answer well, and ones that do not stop. */

const PIECE = 'x'.repeat(60_000);
let pieces = 0;

/**
 * A server with three answers: `endless` never ends, `size:<n>` has that many characters, and
 * others are short.
 */
export function startFlood(): Promise<Upstream> {
  return Upstream.start(async (exchange) => {
    if (exchange.received.method === 'GET') return exchange.reply(200, { data: [{ id: 'm' }] });
    const prompt = /"(endless|size:\d+)"/.exec(exchange.received.body)?.[1] ?? '';
    if (prompt === 'endless') return answerEndlessly(exchange);
    if (prompt === '') return exchange.answer('Hello');
    return exchange.answer(...piecesOf(Number(prompt.slice('size:'.length))));
  });
}

export function floodConfig(upstream: Upstream, ids: readonly string[]): object {
  const provider = { base_url: upstream.base_url, kind: 'local', model: 'm' };
  return { providers: Object.fromEntries(ids.map((id) => [id, provider])) };
}

async function answerEndlessly(exchange: Exchange): Promise<void> {
  exchange.open();
  while (!exchange.socket.destroyed) {
    pieces += 1;
    // The log has equal texts once, so these differ.
    await exchange.text(`${pieces} ${PIECE}`).catch(() => undefined);
  }
}

function piecesOf(characters: number): string[] {
  return Array.from({ length: Math.ceil(characters / PIECE.length) }, (_, index) =>
    PIECE.slice(0, Math.min(PIECE.length, characters - index * PIECE.length)),
  );
}

export interface FloodRun {
  id: string;
  state: string;
  error: { code: string } | null;
}

/** The run as it was accepted, or the one that the key is of. */
export async function askRun(
  victim: Victim,
  input: { prompt: string; provider: string; idempotency_key?: string },
): Promise<FloodRun> {
  const response = await fetch(`${victim.url}/v1/runs`, {
    method: 'POST',
    headers: { ...victim.bearer, 'content-type': 'application/json' },
    body: JSON.stringify({ max_tokens: 100_000, ...input }),
  });
  const body = (await response.json()) as FloodRun;
  if (!response.ok)
    throw new Error(`A run was refused with ${response.status}: ${JSON.stringify(body)}`);
  return body;
}

/** Waits until these runs have ended. They are counted, so that no large text is read for it. */
export async function untilIdle(victim: Victim): Promise<void> {
  await waitFor(
    'no run is in progress',
    async () => (await status(victim)).active === 0 && (await status(victim)).queued === 0,
    { within_ms: 240_000, every_ms: 200 },
  );
}

async function status({ life }: Victim): Promise<{ active: number; queued: number }> {
  return (await life.ask((client) => client.call('status'))).runs;
}

/** How these runs ended, as their terminal events say. */
export async function endsOf(victim: Victim, ids: readonly string[]): Promise<string[]> {
  const ends: string[] = [];
  for (const id of ids) {
    const { state, error } = await victim.life.ask((client) => client.call('run.get', { id }));
    ends.push(error === null ? state : `${state} ${error.code}`);
  }
  return ends;
}

/** Bytes of the event log: the database and its write-ahead log. */
export function logBytes({ home }: Victim): number {
  return [home.paths.database, `${home.paths.database}-wal`].reduce(
    (sum, path) => sum + sizeOf(path),
    0,
  );
}

function sizeOf(path: string): number {
  try {
    return statSync(path).size;
  } catch {
    return 0;
  }
}
