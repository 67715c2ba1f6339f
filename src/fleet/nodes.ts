import { isoTime } from '../async/clock.ts';
import type { NodeList, NodeRecord } from '../contract/nodes.ts';
import { SvcError } from '../errors.ts';
import type { NodesPort } from '../runtime/placement.ts';
import type { Fleet, NodeRow } from './port.ts';

/** The nodes of the fleet, as users see them. */
export class Nodes implements NodesPort {
  private readonly fleet: Pick<Fleet, 'nodes' | 'drain'>;
  private readonly now: () => number;

  constructor(fleet: Pick<Fleet, 'nodes' | 'drain'>, now: () => number) {
    this.fleet = fleet;
    this.now = now;
  }

  async list(): Promise<NodeList> {
    const rows = await this.fleet.nodes();
    return { nodes: rows.map((row) => this.record(row)) };
  }

  /** Asks a node to finish its work and stop. Throws node_unknown. */
  async drain(id: string): Promise<NodeRecord> {
    const found = (await this.fleet.drain(id))
      ? (await this.list()).nodes.find((node) => node.id === id)
      : undefined;
    if (found === undefined)
      throw new SvcError('node_unknown', `No node ${JSON.stringify(id)} has a lease.`);
    return found;
  }

  /** The end of the lease is by the clock of this machine, so that it fits the other times here. */
  private record(row: NodeRow): NodeRecord {
    const { node_id, state, since, capacity, active, version, host, lease_ms_left, clock } = row;
    return {
      id: node_id,
      state,
      since: isoTime(since),
      capacity,
      runs: active,
      version,
      host,
      lease_until: lease_ms_left > 0 ? isoTime(this.now() + lease_ms_left) : null,
      clock_ms: clock?.clock_ms ?? null,
      takes_runs: clock?.takes_runs ?? true,
    };
  }
}

/** The boot with the oldest of the leases that have not ended; undefined without any. */
export function oldestBoot(rows: readonly NodeRow[]): string | undefined {
  return rows
    .filter(({ lease_ms_left }) => lease_ms_left > 0)
    .toSorted((a, b) => a.since - b.since || (a.node_id < b.node_id ? -1 : 1))[0]?.boot_id;
}
