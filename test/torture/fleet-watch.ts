import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import type { RealFleet } from '../helpers/fleet.ts';

/**
 * Watches the leases from outside. Each look is one statement, so it sees the epochs and the end of
 * the log at one moment.
 */
export class Epochs {
  private readonly address: string;
  /** The boot of each node at the last look, with its epoch. */
  private readonly present = new Map<string, { boot_id: string; epoch: number }>();
  /** Where the log ended at the first look without the epoch of a boot. */
  private readonly over = new Map<string, number>();
  private readonly idle = new Set<string>();
  private readonly stopped = new AbortController();
  private watching: Promise<void> = Promise.resolve();

  constructor(address: string) {
    this.address = address;
  }

  start(): void {
    this.watching = this.watch();
  }

  async stop(): Promise<void> {
    this.stopped.abort();
    await this.watching;
  }

  /** Another node has taken over this boot, and no unfinished run is left with it. */
  isOver(boot_id: string): boolean {
    return this.over.has(boot_id) && this.idle.has(boot_id);
  }

  /** Events that a boot wrote after its epoch was raised. */
  async lateWrites(fleet: RealFleet): Promise<string[]> {
    const late: string[] = [];
    for (const [boot_id, seq] of this.over) {
      const rows = await fleet.read<{ seq: number; stream: string; type: string }>(
        'select seq::integer, stream, type from svc_events where boot_id = $1 and seq > $2',
        [boot_id, seq],
      );
      late.push(...rows.map((row) => `${boot_id} was fenced at ${seq}: ${JSON.stringify(row)}`));
    }
    return late;
  }

  private async watch(): Promise<void> {
    while (!this.stopped.signal.aborted) {
      const client = new pg.Client({ connectionString: this.address });
      client.on('error', () => {});
      try {
        await client.connect();
        while (!this.stopped.signal.aborted) {
          this.note((await client.query<Look>(LOOK)).rows);
          await delay(LOOK_MS);
        }
      } catch {
        await delay(LOOK_MS);
      } finally {
        await client.end().catch(() => {});
      }
    }
  }

  private note(rows: readonly Look[]): void {
    for (const { node_id, boot_id, epoch, last_seq, waits_for } of rows) {
      const before = this.present.get(node_id);
      if (before !== undefined && before.epoch !== epoch && !this.over.has(before.boot_id))
        this.over.set(before.boot_id, last_seq);
      // After a take-over the row still has the boot that lost its lease.
      if (this.over.has(boot_id) && waits_for === 0) this.idle.add(boot_id);
      if (!this.over.has(boot_id)) this.present.set(node_id, { boot_id, epoch });
    }
  }
}

interface Look {
  node_id: string;
  boot_id: string;
  epoch: number;
  last_seq: number;
  /** Runs of this node, and runs without a node that were cut off. */
  waits_for: number;
}

const LOOK = `
select node_id, boot_id, epoch::integer, (select last_seq::integer from svc_log) as last_seq,
  (select count(*)::integer from svc_runs where not finished and (
    svc_runs.node_id = svc_nodes.node_id or (svc_runs.node_id is null and not waits)
  )) as waits_for
from svc_nodes`;
const LOOK_MS = 20;
