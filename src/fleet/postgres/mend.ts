import type { RunRow } from '../../store/port.ts';
import { toRunLine } from '../../store/row.ts';
import { dataDigest } from '../../store/run-digest.ts';
import { withoutSeq } from './append/commit.ts';
import { toColumn } from './columns.ts';
import type { Connections } from './connections.ts';

/** Replaces a damaged row. False if the run has newer events. */
export function mendRun(connections: Connections, row: RunRow): Promise<boolean> {
  const { run_id, idempotency_key, finished, state, provider, model, seq } = row;
  const { data, cloud, conversation, origin, client, due_at } = toRunLine(withoutSeq(row));
  const optional = (text: string | null) => (text === null ? null : toColumn(text));
  return connections.transaction(async (database) => {
    const { rows } = await database.query<{ seq: number; at: number; accepted_seq: number }>(
      `select seq, at, (select seq from svc_events where stream = $1 and version = 1) as accepted_seq
       from svc_events where stream = $1 and type <> 'run.output_appended'
       order by version desc limit 1`,
      [run_id],
    );
    const [last] = rows;
    if (last === undefined || last.seq !== seq) return false;
    await database.query(
      `insert into svc_runs as r (run_id, accepted_seq, idempotency_key, finished, ended_at, state,
         provider, model, client, cloud, conversation, origin, seq, data, digest, node_id, waits,
         due_at)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, null, $16, $17)
       on conflict (run_id) do update set accepted_seq = excluded.accepted_seq,
         idempotency_key = excluded.idempotency_key, finished = excluded.finished,
         ended_at = excluded.ended_at, state = excluded.state, provider = excluded.provider,
         model = excluded.model, seq = excluded.seq, data = excluded.data, digest = excluded.digest,
         bytes = null, due_at = excluded.due_at`,
      [
        run_id,
        last.accepted_seq,
        idempotency_key,
        finished,
        finished ? last.at : null,
        toColumn(state),
        toColumn(provider),
        toColumn(model),
        toColumn(client ?? ''),
        cloud === 1,
        optional(conversation),
        optional(origin),
        seq,
        data,
        dataDigest(run_id, data),
        state === 'queued',
        due_at,
      ],
    );
    return true;
  });
}
