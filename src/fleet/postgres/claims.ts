import type { QueryResultRow } from 'pg';
import {
  type CancelAsk,
  type ClaimQuery,
  type Fleet,
  keyOf,
  type Look,
  type Waiting,
} from '../port.ts';
import type { HeldLease } from './append/appends.ts';
import { notifyOf } from './channel.ts';
import { ANSWER, PLACES, SEEN, TAKEN, toClaimed } from './claimed.ts';
import type { Connections } from './connections.ts';

export type Claims = Pick<
  Fleet,
  | 'release'
  | 'keepFor'
  | 'keepOn'
  | 'claim'
  | 'claimRun'
  | 'ownerOf'
  | 'look'
  | 'position'
  | 'reserveKey'
  | 'freeKey'
  | 'ask'
  | 'listCancels'
  | 'lastSeq'
  | 'time'
>;

/**
 * The owners of runs, the keys and the cancels in the database.
 *
 * 1. Each change is one statement, which has no effect unless this node has its lease. It locks the
 *    row of the node, so a take-over comes before it or after it.
 * 2. Nodes that claim at the same time skip the rows of each other, so no run is claimed twice.
 * 3. A claim is tried once. After an unknown outcome, the owner of a run is in its row.
 */
export function createClaims(connections: Connections, lease: HeldLease): Claims {
  /** Rows of a statement on the lease, which is renewed once if it is late. */
  const queryHeld = async <R extends QueryResultRow>(
    text: string,
    values: readonly unknown[],
    how: 'read' | 'queryOnce' = 'read',
  ): Promise<R[]> => {
    for (let isRenewed = false; ; isRenewed = true) {
      const { node_id, epoch } = lease.current();
      const rows = await connections[how]<R & { held: boolean }>(text, [node_id, epoch, ...values]);
      if (rows[0]?.held !== false) return rows;
      if (isRenewed) throw connections.asError(new Error('The lease ends at once.'));
      await lease.extend();
    }
  };
  const queryValue = async <V>(text: string, values: readonly unknown[]): Promise<V | null> =>
    ((await connections.read<{ value: V | null }>(text, values))[0]?.value ?? null) as V | null;

  return {
    release: async (run_ids) => {
      await queryHeld(RELEASE, [run_ids]);
    },
    keepFor: async (run_id, file, ms) => {
      await queryHeld(KEEP_FOR, [run_id, file, ms]);
    },
    keepOn: async (files, ms) => {
      await queryHeld(KEEP_ON, [files.map(keyOf), ms]);
    },
    claim: async ({ providers, models, files, limit }: ClaimQuery) => {
      if (limit <= 0) return [];
      const values = [providers, models, limit, limit + OTHERS, files.map(keyOf)];
      return toClaimed(await queryHeld(CLAIM, values, 'queryOnce'));
    },
    claimRun: async (run_id) =>
      toClaimed(await queryHeld(CLAIM_RUN, [run_id], 'queryOnce'))[0] ?? null,
    ownerOf: (run_id) =>
      queryValue<string>(
        'select node_id as value from svc_runs where run_id = $1 and not finished',
        [run_id],
      ),
    look: async ({ most, left_ms, lists, listed }) => {
      const [row] = await connections.read<LookRow>(LOOK, [most, left_ms, lists, listed]);
      if (row === undefined) throw connections.asError(new Error('it has no answer'));
      const { last_seq, late, asks, ...waiting } = row;
      return { last_seq, late, asks, waiting };
    },
    position: (run_id) => queryValue<number>(POSITION, [run_id]),
    reserveKey: async (key, run_id) => {
      for (;;) {
        const [row] = await queryHeld<{ run_id: string | null }>(RESERVE, [key, run_id]);
        // Another reservation was there. It may be gone by now.
        const owner =
          row?.run_id ??
          (await queryValue<string>('select run_id as value from svc_keys where key = $1', [key]));
        if (owner !== null) return owner;
      }
    },
    freeKey: async (key, run_id) => {
      await connections.read('delete from svc_keys where key = $1 and run_id = $2', [key, run_id]);
    },
    ask: async (run_id, by) => {
      await connections.read(ASK, [run_id, by]);
    },
    listCancels: () =>
      queryHeld<CancelAsk & QueryResultRow>(ASKS, []).then((rows) => rows.flatMap(toAsk)),
    lastSeq: async () =>
      (await queryValue<number>('select last_seq as value from svc_log where id = 1', [])) ?? 0,
    time: async () => {
      const ms = await queryValue<number>(TIME, []);
      if (ms === null) throw connections.asError(new Error('it has no answer'));
      return ms;
    },
  };
}

const TIME = 'select (extract(epoch from clock_timestamp()) * 1000)::float8 as value';

/** Runs that are looked at beyond the limit: other nodes may take some of them meanwhile. */
const OTHERS = 64;

function toAsk({ run_id, by }: { run_id: string | null; by: string }): CancelAsk[] {
  return run_id === null ? [] : [{ run_id, by }];
}

/** A file as the statements compare it: as `keyOf` writes it. */
const KEY = `provider || '/' || model || ' ' || file`;

/**
 * The lease of this node: $1 and $2. Without a lease there is no row, and the statement does
 * nothing.
 */
const MINE = `
  mine as materialized (
    select node_id from svc_nodes
    where node_id = $1 and epoch = $2 and until > clock_timestamp()
    for share
  )`;

const RELEASE = `
with ${MINE},
released as (
  update svc_runs set node_id = null, waits = true
  from mine
  where run_id = any($3) and svc_runs.node_id = mine.node_id and not finished and state = 'queued'
  returning run_id
)
select exists (select from mine) as held,
  (select ${notifyOf('waiting')} from released limit 1) as told`;

const KEEP_FOR = `
with ${MINE},
given as (
  update svc_runs set node_id = null, waits = false, file = $4,
    file_until = clock_timestamp() + $5::float8 * interval '1 millisecond'
  from mine
  where run_id = $3 and svc_runs.node_id = mine.node_id and not finished
  returning run_id
)
select exists (select from mine) as held,
  (select ${notifyOf('waiting')} from given limit 1) as told`;

const KEEP_ON = `
with ${MINE},
kept as (
  update svc_runs set file_until = clock_timestamp() + $4::float8 * interval '1 millisecond'
  from mine
  where not finished and svc_runs.node_id is null and file is not null and ${KEY} = any($3)
)
select exists (select from mine) as held`;

/** A run that is kept for a file is free for the nodes with its file, and later for all. */
const FREE = `(file is null or file_until <= clock_timestamp() or ${KEY} = any($7))`;

const CLAIM = `
with ${MINE},
candidates as materialized (
  select run_id, place, accepted_seq
  from (${PLACES(`(provider = any($3) or provider || '/' || model = any($4))
    and ${FREE}`)}) as fair
  order by place, accepted_seq limit $6
),
locked as materialized (
  select svc_runs.run_id, waits, file, place, svc_runs.accepted_seq, svc_runs.seq as svc_runs_seq
  from candidates join svc_runs using (run_id)
  where not finished and node_id is null and exists (select from mine)
    and ${FREE}
  order by place, svc_runs.accepted_seq limit $5
  for update of svc_runs skip locked
),
claimed as (
  update svc_runs set node_id = mine.node_id, waits = false, file = null
  from mine, locked where svc_runs.run_id = locked.run_id
  returning svc_runs.run_id
),
taken as (${TAKEN}, place, accepted_seq from locked join claimed using (run_id))
${ANSWER} order by place, accepted_seq, version`;

const CLAIM_RUN = `
with ${MINE},
locked as materialized (
  select run_id, waits, file, seq as svc_runs_seq from svc_runs
  where run_id = $3 and not finished and node_id is null and exists (select from mine)
  for update
),
claimed as (
  update svc_runs set node_id = mine.node_id, waits = false, file = null
  from mine, locked where svc_runs.run_id = locked.run_id
  returning svc_runs.run_id
),
taken as (${TAKEN} from locked join claimed using (run_id))
${ANSWER} order by version`;

type LookRow = Omit<Look, 'waiting'> & Waiting & QueryResultRow;

/** Each part reads few rows or index entries: each node asks at each poll. */
const LOOK = `
select coalesce((select last_seq from svc_log where id = 1), 0) as last_seq,
  exists (select from svc_nodes where gone is null and until <= clock_timestamp()) as late,
  exists (select from svc_asks) as asks, (
  select count(*)::integer from (
    select from svc_runs where not finished and node_id is null limit $1
  ) as first
) as runs, array(
  select run_id from svc_runs
  where not finished and node_id is null and waits
    and due_at <= extract(epoch from clock_timestamp()) * 1000
  order by due_at limit ${OTHERS}
) as due, (
  select coalesce(json_agg(row_to_json(files)), '[]') from (
    select distinct provider, model, file from svc_runs
    where not finished and node_id is null and file is not null
      and file_until > clock_timestamp()
    limit ${OTHERS}
  ) as files
) as wanted, (
  select coalesce(json_agg(row_to_json(models)), '[]') from (
    select distinct provider, model from svc_runs
    where not finished and node_id is null and provider = any($3)
      and provider || '/' || model <> all($4)
    limit ${OTHERS}
  ) as models
) as unlisted, array(
  select run_id from svc_runs
  where not finished and node_id is null and not waits
    and (file is null or file_until <= clock_timestamp())
    and greatest(${SEEN}, (
      select min(since) from svc_nodes where gone is null and until > clock_timestamp()
    )) <= clock_timestamp() - $2::float8 * interval '1 millisecond'
  limit ${OTHERS}
) as "left"`;

const POSITION = `
select value from (
  select run_id, (row_number() over (order by place, accepted_seq))::integer as value
  from (${PLACES('true')}) as fair
) as numbered where run_id = $1`;

/**
 * A reservation is replaced when its run was accepted and has no such key any more. Also when its
 * node has another epoch.
 */
const RESERVE = `
with ${MINE},
accepted as (select run_id from svc_runs where idempotency_key = $3),
reserved as (
  insert into svc_keys (key, run_id, node_id, epoch)
  select $3, $4, node_id, $2 from mine where not exists (select from accepted)
  on conflict (key) do update
    set run_id = excluded.run_id, node_id = excluded.node_id, epoch = excluded.epoch
    where exists (select from svc_runs where svc_runs.run_id = svc_keys.run_id)
      or not exists (
        select from svc_nodes
        where svc_nodes.node_id = svc_keys.node_id and svc_nodes.epoch = svc_keys.epoch
      )
  returning run_id
)
select exists (select from mine) as held,
  coalesce((select run_id from accepted), (select run_id from reserved)) as run_id`;

const ASK = `
with asked as (
  insert into svc_asks (run_id, ask, by, at)
  select run_id, 'cancel', $2, clock_timestamp() from svc_runs where run_id = $1 and not finished
  on conflict do nothing
  returning run_id
)
select ${notifyOf('asks')} from asked`;

/** The statement locks no row: a cancel that is read late does no harm. */
const ASKS = `
with mine as (
  select node_id from svc_nodes where node_id = $1 and epoch = $2 and until > clock_timestamp()
),
gone as (
  delete from svc_asks where not exists (
    select from svc_runs where svc_runs.run_id = svc_asks.run_id and not finished
  )
),
asked as (
  select run_id, by, at from svc_asks
  join svc_runs using (run_id) join mine using (node_id) where not finished
)
select exists (select from mine) as held, run_id, by
from (select 1) as one left join asked on true order by at`;
