import type { ClientBase } from 'pg';
import { SvcError } from '../../errors.ts';
import type { EventRow } from '../../store/row.ts';

/** An event by its place, and by who wrote it there. */
export type LastEvent = Pick<EventRow, 'seq' | 'stream' | 'version' | 'boot_id'>;

/**
 * How far this process knows the log. It owns the newest event that it has written or read, and the
 * last position that it heard of. A database that was restored from a copy lacks them. So does a
 * standby that took over without the last commits.
 *
 * 1. Each new connection is compared before its first statement: no database is exchanged without a
 *    new connection.
 * 2. A database that has less, or other events, is refused for good. A new boot has to read the
 *    log again.
 * 3. A standby is refused until it takes over: it may be behind for a moment.
 * 4. An event that was removed on purpose is not missed: the last position stays.
 */
export class HighWater {
  private newest: LastEvent | null = null;
  private last_seq = 0;

  saw({ seq, stream, version, boot_id }: LastEvent): void {
    this.heard(seq);
    if (seq > (this.newest?.seq ?? 0)) this.newest = { seq, stream, version, boot_id };
  }

  heard(last_seq: number): void {
    this.last_seq = Math.max(this.last_seq, last_seq);
  }

  /** Throws lease_lost. For a standby it throws what PostgreSQL says of a write there. */
  async check(client: ClientBase, database: string): Promise<void> {
    if (this.last_seq === 0) return;
    const { seq = 0, stream = '', version = 0, boot_id = '' } = this.newest ?? {};
    const values = [this.last_seq, seq, stream, version, boot_id];
    const { rows } = await client.query<Answer>(COMPARE, values);
    const [answer] = rows;
    if (answer?.standby)
      throw Object.assign(new Error('it is a standby'), { code: READ_ONLY_TRANSACTION });
    if (answer?.behind !== false || answer.other)
      throw new SvcError(
        'lease_lost',
        `The database ${database} has lost events: this node knows its log up to ${this.last_seq}, ` +
          `and the log ends at ${answer?.end ?? 0}${answer?.other ? ' or has other events' : ''}.`,
        { hint: 'A copy was restored, or a standby took over without the last commits.' },
      );
  }
}

interface Answer {
  standby: boolean;
  /** Null: the database has no log. */
  behind: boolean | null;
  other: boolean;
  end: number | null;
}

const READ_ONLY_TRANSACTION = '25006';

const COMPARE = `
select pg_is_in_recovery() as standby, last_seq < $1 as behind, last_seq as end,
  exists (
    select from svc_events where seq = $2 and (stream, version, boot_id) <> ($3, $4::bigint, $5)
  ) as other
from (select 1) as one left join svc_log on id = 1`;
