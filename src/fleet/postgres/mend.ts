import type { RunRow } from '../../store/port.ts';
import { toRunLine } from '../../store/row.ts';
import { APPENDED_RUNS, type AppendedRun, upsertRuns } from './append/append-statement.ts';
import { withoutSeq } from './append/commit.ts';
import { Statement } from './append/statement.ts';
import type { Connections } from './connections.ts';

interface MendedRun extends AppendedRun {
  accepted_seq: number;
}

const statement = new Statement<MendedRun>();
const MEND = upsertRuns(
  {
    accepted_seq: statement.place('bigint', (run) => run.accepted_seq),
    bytes: 'null',
    node_id: 'null',
    waits: `given.state = 'queued'`,
  },
  statement.rows(APPENDED_RUNS, (run) => [run]),
  ['accepted_seq'],
);

/** Replaces a damaged row. False if the run has newer events. */
export function mendRun(connections: Connections, row: RunRow): Promise<boolean> {
  const { run_id, finished, seq } = row;
  return connections.transaction(async (database) => {
    const { rows } = await database.query<{ seq: number; at: number; accepted_seq: number }>(
      `select seq, at, (select seq from svc_events where stream = $1 and version = 1) as accepted_seq
       from svc_events where stream = $1 and type <> 'run.output_appended'
       order by version desc limit 1`,
      [run_id],
    );
    const [last] = rows;
    if (last === undefined || last.seq !== seq) return false;
    const run: MendedRun = {
      line: { ...toRunLine(withoutSeq(row)), seq },
      accepted_seq: last.accepted_seq,
      ended_at: finished ? last.at : null,
      accepted_place: null,
      seq_place: null,
      prompt: null,
      answer: null,
    };
    await database.query(MEND, statement.valuesOf(run));
    return true;
  });
}
