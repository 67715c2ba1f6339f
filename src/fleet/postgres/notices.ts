import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from 'pg';
import type { FleetChange } from '../port.ts';
import { CHANNEL } from './channel.ts';
import type { Connections } from './connections.ts';

/**
 * What other nodes say in the database: NOTIFY in each commit, LISTEN here. It owns one connection
 * for each listener.
 *
 * 1. A lost connection is made again. Then everything may have changed.
 * 2. A notice may be lost. The poll of its listener finds what it said.
 */
export class Notices {
  private readonly connections: Pick<Connections, 'connect'>;
  private readonly retry_ms: number;

  constructor(connections: Pick<Connections, 'connect'>, retry_ms: number) {
    this.connections = connections;
    this.retry_ms = retry_ms;
  }

  onChange(listener: (change: FleetChange) => void, signal: AbortSignal): void {
    void this.listen(listener, signal);
  }

  private async listen(
    listener: (change: FleetChange) => void,
    signal: AbortSignal,
  ): Promise<void> {
    while (!signal.aborted) {
      const client = await this.connections.connect().catch(() => null);
      if (client !== null) await hear(client, listener, signal);
      await delay(this.retry_ms, null, { signal }).catch(() => {});
    }
  }
}

/** Until the connection ends. */
async function hear(
  client: Client,
  listener: (change: FleetChange) => void,
  signal: AbortSignal,
): Promise<void> {
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  const stop = () => end();
  client.on('error', stop);
  client.on('end', stop);
  signal.addEventListener('abort', stop);
  client.on('notification', ({ payload }) => {
    const change = changeOf(payload ?? '');
    if (change !== null && !signal.aborted) listener(change);
  });
  try {
    const { rows } = await client.query<{ channel: string }>(
      `select quote_ident(${CHANNEL}) as channel`,
    );
    await client.query(`listen ${rows[0]?.channel}`);
    if (signal.aborted) return;
    listener(ANYTHING);
    await ended;
  } catch {
    // The next connection tries again.
  } finally {
    signal.removeEventListener('abort', stop);
    client.end().catch(() => {});
  }
}

const ANYTHING: FleetChange = { last_seq: 0, streams: 'all', waiting: true, asks: true };

/** Null for a text that no node of this version writes. */
function changeOf(payload: string): FleetChange | null {
  try {
    const { last_seq, streams, waiting, asks } = JSON.parse(payload) as Partial<FleetChange>;
    if (typeof last_seq !== 'number' || !(streams === 'all' || Array.isArray(streams))) return null;
    return { last_seq, streams, waiting: waiting === true, asks: asks === true };
  } catch {
    return null;
  }
}
