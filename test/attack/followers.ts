import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { chunk, Upstream } from '../helpers/upstream.ts';
import type { Victim } from './attack.ts';

/**
 * What attacks with followers share: a provider with a large answer, and clients that read nothing.
 */

/**
 * A provider whose answer is so many pieces of so many characters, and the configuration that names
 * it.
 */
export async function startTeller(
  pieces: number,
  characters: number,
): Promise<{ upstream: Upstream; config: object }> {
  const piece = `data: ${JSON.stringify(chunk({ content: 'x'.repeat(characters) }))}\n\n`;
  const upstream = await Upstream.start(async (exchange) => {
    exchange.open();
    const tell = async () => {
      for (let index = 0; index < pieces; index += 1) await exchange.write(piece);
      await exchange.finish();
      await exchange.done();
    };
    // The daemon may be gone before the end.
    await tell().catch(() => {});
  });
  const { base_url } = upstream;
  return {
    upstream,
    config: { providers: { teller: { base_url, adapter: 'openai-compatible', model: 'm' } } },
  };
}

/** Starts a run; its id. */
export async function startRun({ url, bearer }: Victim, body: object): Promise<string> {
  const headers = { ...bearer, 'content-type': 'application/json' };
  const response = await fetch(`${url}/v1/runs`, {
    method: 'POST',
    headers,
    body: JSON.stringify(body),
  });
  if (response.status !== 202)
    throw new Error(`The run was not accepted: ${response.status} ${await response.text()}`);
  return ((await response.json()) as { id: string }).id;
}

/**
 * Reads the events of a run to the end of its stream, from the beginning; how many bytes they were,
 * and whether the run had ended.
 */
export async function readRun(
  { url, bearer }: Victim,
  id: string,
): Promise<{ status: number; bytes: number; ended: boolean }> {
  const response = await fetch(`${url}/v1/runs/${id}/events`, { headers: bearer });
  let [bytes, tail] = [0, ''];
  const decoder = new TextDecoder();
  for await (const piece of response.body ?? []) {
    bytes += piece.length;
    tail = `${tail}${decoder.decode(piece)}`.slice(-4096);
  }
  return {
    status: response.status,
    bytes,
    ended: /event: run\.(completed|failed|cancelled|timed_out|interrupted)\n/.test(tail),
  };
}

/** Asks until the daemon serves a client that reads. By then it has disconnected silent clients. */
export async function readWhenServed(victim: Victim, id: string): Promise<number> {
  for (let times = 0; times < READS_MAX; times += 1) {
    const { status, bytes, ended } = await readRun(victim, id).catch(() => ({
      status: 0,
      bytes: 0,
      ended: false,
    }));
    if (ended) return bytes;
    if (status !== 429 && status !== 200 && status !== 0)
      throw new Error(`A client that reads was answered ${status}.`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Error(`A client that reads was not served in ${READS_MAX} times.`);
}

const READS_MAX = 150;

/** Sends a request on so many connections and reads nothing of the answers. */
export async function askInSilence(
  victim: Victim,
  count: number,
  request: (index: number) => string,
): Promise<{ end(): void }> {
  const sockets: Socket[] = [];
  for (let index = 0; index < count; index += 1) {
    const socket = connect(victim.port, '127.0.0.1');
    socket.on('error', () => {});
    socket.pause();
    sockets.push(socket);
    await Promise.race([once(socket, 'connect'), once(socket, 'close')]);
    socket.write(request(index));
  }
  return {
    end: () => {
      for (const socket of sockets) socket.destroy();
    },
  };
}

export function eventsRequest({ host, token }: Victim, id: string): string {
  return `GET /v1/runs/${id}/events HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${token}\r\n\r\n`;
}

export function upgradeRequest({ host, token }: Victim, target: string): string {
  const upgrade =
    'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n';
  return `GET ${target} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${token}\r\n${upgrade}`;
}
