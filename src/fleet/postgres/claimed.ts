import type { QueryResultRow } from 'pg';
import type { StoredEvent } from '../../kernel/store/port.ts';
import type { ClaimedRun } from '../port.ts';
import { EVENT_COLUMNS, type StoredRow, toCheckedEvent } from './event-reads.ts';
import { referringCondition } from './texts.ts';

/**
 * The answer of a claim: a row for each event of each run, so that a run can start without another
 * question. Without a run, one row says that the lease is there.
 *
 * 1. A run that was cut off may have many events. They are not in the answer.
 * 2. A run whose events are large, refer to texts, or changed during the claim, is without them
 *    too.
 */
export interface ClaimedRow extends QueryResultRow, Partial<StoredRow> {
  claimed_id: string | null;
  waits: boolean;
  is_kept: boolean;
  downtime_ms: number;
  /** Position of its last event. */
  last_seq: number;
}

/** When the boot of the last event of a run was last seen. */
export const SEEN = `(
    select seen_at from svc_boots where boot_id = (
      select boot_id from svc_events where stream = run_id order by version desc limit 1
    )
  )`;

/** The downtime of a run: the time since then. */
export const TAKEN = `
  select run_id, waits, file, svc_runs_seq,
    greatest(0, extract(epoch from clock_timestamp() - ${SEEN}) * 1000)::float8 as downtime`;

/** An event of a waiting run has its prompt. A larger one is read when its turn comes. */
const EVENT_BYTES_MAX = 65_536;

export const ANSWER = `
select exists (select from mine) as held, taken.run_id as claimed_id, waits,
  file is not null as is_kept, coalesce(downtime, 0) as downtime_ms, svc_runs_seq as last_seq, ${EVENT_COLUMNS}
from (select 1) as one left join taken on true
left join svc_events on waits and stream = taken.run_id
  and octet_length(svc_events.data) <= ${EVENT_BYTES_MAX} and not ${referringCondition('svc_events.data')}`;

/** In the order of the rows. */
export function toClaimed(rows: readonly ClaimedRow[]): ClaimedRun[] {
  const runs = Map.groupBy(rows, ({ claimed_id }) => claimed_id);
  return [...runs].flatMap(([run_id, [row, ...more]]) => {
    if (run_id === null || row === undefined) return [];
    const { waits, is_kept: kept, downtime_ms } = row;
    const events = eventsOf([row, ...more]);
    return [{ run_id, waits, kept, downtime_ms: waits ? 0 : downtime_ms, events }];
  });
}

/** Null if one is missing. */
function eventsOf(rows: readonly ClaimedRow[]): StoredEvent[] | null {
  const isWhole =
    rows.every(({ version }, index) => version === index + 1) &&
    rows.at(-1)?.seq === rows[0]?.last_seq;
  return isWhole ? (rows as unknown as StoredRow[]).map(toCheckedEvent) : null;
}

/** Who asked a run: the token before the line break, or the home. */
const ASKER = `case when position(E'\\n' in client) > 0 then split_part(client, E'\\n', 1) end`;

/**
 * The place of each run that waits: first the askers with the fewest runs before it, then the
 * oldest run. The clients of one asker share its places in the same way.
 */
export const PLACES = (suits: string) => `
  select run_id, accepted_seq, coalesce(n, 0) + row_number() over (
    partition by asker order by turn, accepted_seq
  ) as place
  from (
    select run_id, accepted_seq, ${ASKER} as asker, coalesce(n, 0) + row_number() over (
      partition by client order by accepted_seq
    ) as turn
    from svc_runs
    left join (
      select client, count(*) as n from svc_runs
      where not finished and node_id is not null group by client
    ) as active using (client)
    where not finished and node_id is null and ${suits}
  ) as turns
  left join (
    select ${ASKER} as busy, count(*) as n from svc_runs
    where not finished and node_id is not null group by busy
  ) as active on busy is not distinct from asker`;
