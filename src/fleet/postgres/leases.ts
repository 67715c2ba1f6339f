import type { ClientBase } from 'pg';
import { SvcError } from '../../errors.ts';
import type {
  Fleet,
  JoinResult,
  NodeFacts,
  NodeLoad,
  NodeRow,
  Renewal,
  TakenOver,
} from '../port.ts';
import { notifyOf } from './channel.ts';
import type { Connections } from './connections.ts';

/**
 * The leases of the nodes in the database. It owns the epoch of this node.
 *
 * 1. The database measures all times. This process compares none.
 * 2. A take-over raises the epoch before it releases the runs, in two statements. The second one
 *    sees what the node committed before the first.
 * 3. Who takes a node over locks its row. A node that appends at that moment is not taken over.
 */
export class Leases
  implements Pick<Fleet, 'join' | 'renew' | 'leave' | 'nodes' | 'drain' | 'takeOver'>
{
  private readonly connections: Connections;
  private readonly lease_ms: number;
  private lease: Lease | null = null;
  private load: NodeLoad = { active: 0, capacity: 0 };

  constructor(connections: Connections, lease_ms: number) {
    this.connections = connections;
    this.lease_ms = lease_ms;
  }

  /** Throws lease_lost when this node has no lease. */
  current(): { node_id: string; epoch: number } {
    if (this.lease === null) throw new SvcError('lease_lost');
    return this.lease;
  }

  /** Renews a lease that has ended, but was not taken over. Throws lease_lost. */
  async extend(): Promise<void> {
    this.current();
    if ((await this.renew(this.load)) === 'lost') throw new SvcError('lease_lost');
  }

  async join(node: NodeFacts, replaces: string | null): Promise<JoinResult> {
    const { node_id, boot_id, version, host, capacity, addresses, clock } = node;
    const values = [
      node_id,
      boot_id,
      version,
      host,
      capacity,
      JSON.stringify({ ...addresses, clock }),
      replaces,
      this.lease_ms,
    ];
    const [row] = await this.connections.read<{
      epoch: number | null;
      previous: string | null;
      rest_ms: number | null;
    }>(JOIN, values);
    if (row === undefined || row.epoch === null)
      throw new SvcError(
        'daemon_already_running',
        `Another daemon is the node ${node_id} of this fleet.`,
        { details: { retry_after_ms: Math.max(0, Math.ceil(row?.rest_ms ?? this.lease_ms)) } },
      );
    this.lease = { node_id, boot_id, epoch: row.epoch, addresses };
    this.load = { active: 0, capacity, clock };
    return { epoch: row.epoch, lease_ms: this.lease_ms, previous_boot_id: row.previous };
  }

  async renew(load: NodeLoad): Promise<Renewal> {
    this.load = load;
    if (this.lease === null) return 'lost';
    const { node_id, epoch, boot_id, addresses } = this.lease;
    const { clock } = load;
    const [row] = await this.connections.read<{ draining: boolean }>(RENEW, [
      node_id,
      epoch,
      boot_id,
      load.active,
      load.capacity,
      this.lease_ms,
      JSON.stringify({ ...addresses, clock }),
    ]);
    if (row === undefined) return 'lost';
    return row.draining ? 'drain' : 'held';
  }

  async leave(): Promise<void> {
    const { lease } = this;
    if (lease === null) return;
    await this.connections.transaction(async (client) => {
      const { rowCount } = await client.query(LEAVE, [lease.node_id, lease.epoch]);
      if (rowCount !== 0) await free(client, [lease.node_id]);
    });
    this.lease = null;
  }

  async nodes(): Promise<NodeRow[]> {
    const rows = await this.connections.read<NodeRow & { addresses: unknown }>(NODES);
    return rows.map((row) => {
      const { clock = null, ...addresses } = JSON.parse(String(row.addresses)) as Located;
      return { ...row, addresses, clock };
    });
  }

  async drain(node_id: string): Promise<boolean> {
    return (await this.connections.read(DRAIN, [node_id])).length > 0;
  }

  async takeOver(): Promise<TakenOver[]> {
    const { node_id, epoch } = this.current();
    const mine = [node_id, epoch, this.lease_ms];
    const [look] = await this.connections.read<Look>(LOOK, mine);
    if (look === undefined) throw new SvcError('lease_lost');
    if (look.late) await this.extend();
    if (look.late || look.was_late || !look.dead) return [];
    return this.connections.transaction(async (client) => {
      const { rows } = await client.query<Omit<TakenOver, 'runs'>>(FENCE, mine);
      if (rows.length === 0) return [];
      const runs = await free(
        client,
        rows.map((lost) => lost.node_id),
      );
      return rows.map((lost) => ({ ...lost, runs: runs.get(lost.node_id) ?? 0 }));
    });
  }
}

interface Lease extends Pick<NodeFacts, 'node_id' | 'boot_id' | 'addresses'> {
  epoch: number;
}

/** The column `addresses`. It has the clock too, so that older programs read the same table. */
type Located = NodeFacts['addresses'] & Partial<Pick<NodeFacts, 'clock'>>;

interface Look {
  /** The lease of this node has ended, or ended less than a lease ago. */
  late: boolean;
  was_late: boolean;
  /** A lease of another node has ended. */
  dead: boolean;
}

/** Releases the runs of nodes that are fenced. Answers how many each had. */
async function free(client: ClientBase, node_ids: readonly string[]): Promise<Map<string, number>> {
  const { rows } = await client.query<{ node_id: string; runs: number }>(FREE, [node_ids]);
  await client.query(TELL);
  return new Map(rows.map(({ node_id, runs }) => [node_id, runs]));
}

const LEASE = (parameter: string) => `${parameter}::float8 * interval '1 millisecond'`;
const NOW = 'clock_timestamp()';
const MS = (time: string) => `(extract(epoch from ${time}) * 1000)::float8`;

/**
 * An earlier attempt may have committed while its answer was lost. The row has this boot then, so a
 * boot may join again over its own row.
 */
const JOIN = `
with before as (select boot_id, until from svc_nodes where node_id = $1),
joined as (
  insert into svc_nodes as node (node_id, epoch, until, since, late_at, gone, version, host,
    boot_id, capacity, active, draining, addresses)
  values ($1, 1, ${NOW} + ${LEASE('$8')}, ${NOW}, null, null, $3, $4, $2, $5, 0, false, $6)
  on conflict (node_id) do update set epoch = node.epoch + 1, until = excluded.until,
    since = excluded.since, late_at = null, gone = null, version = excluded.version,
    host = excluded.host, boot_id = excluded.boot_id, capacity = excluded.capacity, active = 0,
    draining = false, addresses = excluded.addresses
    where node.gone is not null or node.until <= ${NOW}
      or node.boot_id = $7 or node.boot_id = excluded.boot_id
  returning epoch
),
seen as (
  insert into svc_boots (boot_id, node_id, epoch, seen_at)
  select $2, $1, epoch, ${NOW} from joined
  on conflict (boot_id) do update set epoch = excluded.epoch, seen_at = excluded.seen_at
)
select (select epoch from joined) as epoch,
  (select nullif(boot_id, $2) from before) as previous,
  (select ${MS(`until - ${NOW}`)} from before) as rest_ms`;

const RENEW = `
with renewed as (
  update svc_nodes set until = ${NOW} + ${LEASE('$6')},
    late_at = case when until <= ${NOW} then ${NOW} else late_at end, active = $4, capacity = $5,
    addresses = $7
  where node_id = $1 and epoch = $2 and gone is null
  returning draining
),
seen as (
  update svc_boots set seen_at = ${NOW} where boot_id = $3 and exists (select from renewed)
)
select draining from renewed`;

const LEAVE = `
update svc_nodes set epoch = epoch + 1, gone = 'left', active = 0
where node_id = $1 and epoch = $2 and gone is null`;

const NODES = `
select node_id, boot_id, version, host, capacity, addresses, epoch, active, ${MS('since')} as since,
  case when gone is not null then gone when until <= ${NOW} then 'late'
    when draining then 'draining' else 'active' end as state,
  case when gone is null then greatest(0, ${MS(`until - ${NOW}`)}) else 0 end as lease_ms_left
from svc_nodes order by node_id collate "C"`;

const DRAIN = `
with drained as (
  update svc_nodes set draining = true where node_id = $1 and gone is null returning node_id
)
select ${notifyOf('asks')} from drained`;

const LOOK = `
select until <= ${NOW} as late, coalesce(late_at + ${LEASE('$3')} > ${NOW}, false) as was_late,
  exists (
    select from svc_nodes where gone is null and until <= ${NOW} and node_id <> $1
  ) as dead
from svc_nodes where node_id = $1 and epoch = $2 and gone is null`;

/** The lease of this node stays as it is until the end of the transaction. */
const FENCE = `
with mine as materialized (
  select from svc_nodes
  where node_id = $1 and epoch = $2 and until > ${NOW}
    and coalesce(late_at + ${LEASE('$3')} <= ${NOW}, true)
  for share
),
dead as materialized (
  select node_id, boot_id, epoch from svc_nodes
  where gone is null and until <= ${NOW} and node_id <> $1 and exists (select from mine)
  for update skip locked
)
update svc_nodes as node set epoch = node.epoch + 1, gone = 'lost', active = 0
from dead where node.node_id = dead.node_id
returning dead.node_id, dead.boot_id, dead.epoch`;

const FREE = `
with freed as (
  update svc_runs set node_id = null, waits = state = 'queued'
  from unnest($1::text[]) as gone (id) where node_id = gone.id and not finished
  returning gone.id
)
select id as node_id, count(*)::integer as runs from freed group by id`;

const TELL = `select ${notifyOf('waiting')}`;
