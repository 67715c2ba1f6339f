import type Database from 'better-sqlite3';
import { SvcError } from '../../errors.ts';
import { asStoreError, codeOf } from '../failure.ts';
import type { Mark } from '../files/high-water.ts';
import { Wal } from '../files/wal.ts';
import { CONFLICT } from '../port.ts';
import { toRunLine } from '../row.ts';
import { asStored } from '../texts.ts';
import type { LogTarget } from '../transfer/port.ts';
import { EMBEDDINGS, USAGE } from '../usage.ts';
import { Words } from '../words.ts';
import { openAlone } from './export.ts';
import type { OpenOptions } from './open.ts';
import { SumsTable } from './sums-table.ts';
import { CommitWrites } from './writes.ts';

/**
 * Opens an empty log, or makes one, to write a whole log into it. The one transaction is in the WAL
 * until it ends, so the disk needs room for the log twice. Throws store_not_empty,
 * daemon_already_running, and what a daemon says of the log.
 */
export function openSqliteTarget(options: OpenOptions): LogTarget {
  const { database } = options;
  const { db, highWater, last: before, close } = openAlone(options);
  let wal: Wal | null = null;
  const end = () => {
    if (db.inTransaction) db.exec('rollback');
    close();
    wal?.close();
  };
  const ask = async <T>(work: () => T): Promise<T> => {
    try {
      return work();
    } catch (error) {
      throw codeOf(error) === CONFLICT ? error : asStoreError(error, database);
    }
  };
  try {
    if (before.seq > 0 || isUsed(db))
      throw new SvcError('store_not_empty', `The event log ${database} has events already.`, {
        hint:
          `Move ${database} and ${options.highWater} away to import into this home. ` +
          'Or name another home in SVC_HOME.',
      });
    const opened = new Wal(db, database);
    wal = opened;
    const begin = db.prepare('begin immediate');
    const words = new Words(db);
    const writes = new CommitWrites(db, words);
    const addGap = db.prepare<[number, number, Buffer]>('insert into gaps values (?, ?, ?)');
    const [ofRuns, ofEmbeddings] = [USAGE, EMBEDDINGS].map((shape) => new SumsTable(db, shape));
    let last: Mark = before;
    begin.run();
    return {
      texts: (texts) =>
        ask(() => {
          for (const text of texts) writes.texts.add(text);
        }),
      expand: (data) => ask(() => writes.texts.expand(data)),
      append: (events, runs) =>
        ask(() => {
          const lines = runs.map((row) => ({ ...toRunLine(row), usage: null }));
          const rows = { events: [...events], runs: lines, embeddings: [] };
          last = writes.write(rows, last, asStored);
        }),
      skip: (to_seq) =>
        ask(() => {
          addGap.run(last.seq + 1, to_seq, Buffer.from(last.hash, 'hex'));
          last = { ...last, seq: to_seq };
        }),
      usage: (rows) =>
        ask(() => {
          for (const row of rows) ofRuns?.put({ ...row, cloud: row.cloud ? 1 : 0 });
        }),
      embeddings: (rows) =>
        ask(() => {
          for (const row of rows) ofEmbeddings?.put(row);
        }),
      finish: () =>
        ask(() => {
          writes.texts.dropUnused();
          opened.commit();
          opened.sync();
          highWater.write(last);
          followLog(words, last.seq, (work) => {
            begin.run();
            work();
            opened.commit();
          });
        }),
      close: async () => end(),
    };
  } catch (error) {
    end();
    throw asStoreError(error, database);
  }
}

/** The index of words follows the log as in a daemon. What fails here, the next daemon does. */
function followLog(words: Words, last_seq: number, write: (work: () => void) => void): void {
  try {
    for (let more = true; more; ) more = words.follow(last_seq, write);
  } catch {
    // The log is whole, and the index is behind it. The close rolls the step back.
  }
}

/** What stays of a log whose events were all removed. */
function isUsed(db: Database.Database): boolean {
  return ['gaps', 'usage', 'embedding_usage'].some(
    (table) => db.prepare(`select 1 from ${table} limit 1`).get() !== undefined,
  );
}
