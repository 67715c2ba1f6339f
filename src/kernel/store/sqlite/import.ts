import { closeSync, fsyncSync, openSync, renameSync } from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { SvcError } from '../../../errors.ts';
import { syncFolderSync } from '../../../home/disk.ts';
import { EMBEDDINGS } from '../embedding-usage.ts';
import { asStoreError, codeOf } from '../failure.ts';
import { importOf, removeImport } from '../files/copies.ts';
import type { Mark } from '../files/high-water.ts';
import { CONFLICT } from '../port.ts';
import { toRunLine } from '../row.ts';
import { asStored } from '../texts.ts';
import type { LogTarget } from '../transfer/port.ts';
import { USAGE } from '../usage.ts';
import { Words } from '../words.ts';
import { openAlone } from './export.ts';
import type { OpenOptions } from './open.ts';
import { SumsTable } from './sums-table.ts';
import { CommitWrites } from './writes.ts';

/**
 * Opens an empty log, or makes one, to write a whole log into it. The log is written beside it, in
 * a transaction for each batch, and takes its place when it is whole. So the disk needs room for it
 * once, and a process that dies leaves the log as it was. Throws store_not_empty,
 * daemon_already_running, and what a daemon says of the log.
 */
export function openSqliteTarget(options: OpenOptions): LogTarget {
  const { database } = options;
  const { db: empty, highWater, last: before, close } = openAlone(options);
  const file = importOf(database);
  let made: Database.Database | null = null;
  const end = () => {
    made?.close();
    removeImport(database);
    close();
  };
  const ask = async <T>(work: () => T): Promise<T> => {
    try {
      return work();
    } catch (error) {
      throw codeOf(error) === CONFLICT ? error : asStoreError(error, database);
    }
  };
  try {
    if (before.seq > 0 || isUsed(empty))
      throw new SvcError('store_not_empty', `The event log ${database} has events already.`, {
        hint:
          `Move ${database} and ${options.highWater} away to import into this home. ` +
          'Or name another home in SVC_HOME.',
      });
    const db = copyOf(empty, file);
    made = db;
    const words = new Words(db);
    const writes = new CommitWrites(db, words);
    const addGap = db.prepare<[number, number, Buffer]>('insert into gaps values (?, ?, ?)');
    const [ofRuns, ofEmbeddings] = [USAGE, EMBEDDINGS].map((shape) => new SumsTable(db, shape));
    let last: Mark = before;
    const write = <T>(work: () => T) => ask(() => db.transaction(work)());
    return {
      texts: (texts) =>
        write(() => {
          for (const text of texts) writes.texts.add(text);
        }),
      expand: (data) => ask(() => writes.texts.expand(data)),
      append: (events, runs) =>
        write(() => {
          const lines = runs.map((row) => ({ ...toRunLine(row), usage: null }));
          const rows = { events: [...events], runs: lines, embeddings: [] };
          last = writes.write(rows, last, asStored);
        }),
      skip: (to_seq) =>
        write(() => {
          addGap.run(last.seq + 1, to_seq, Buffer.from(last.hash, 'hex'));
          last = { ...last, seq: to_seq };
        }),
      usage: (rows) =>
        write(() => {
          for (const row of rows) ofRuns?.put({ ...row, cloud: row.cloud ? 1 : 0 });
        }),
      embeddings: (rows) =>
        write(() => {
          for (const row of rows) ofEmbeddings?.put(row);
        }),
      finish: async () => {
        await write(() => writes.texts.dropUnused());
        followLog(words, last.seq, (work) => db.transaction(work)());
        await ask(() => {
          db.close();
          syncFile(file);
          // SQLite deletes the WAL of the empty log here, and not beside the new one.
          empty.close();
          renameSync(file, database);
          syncFolderSync(dirname(database));
          highWater.write(last);
        });
      },
      close: async () => end(),
    };
  } catch (error) {
    end();
    throw asStoreError(error, database);
  }
}

/** A copy of the empty log, with its name. Nothing of it is durable before the end. */
function copyOf(empty: Database.Database, file: string): Database.Database {
  closeSync(openSync(file, 'wx', 0o600));
  empty.prepare('vacuum into ?').run(file);
  const db = new Database(file);
  for (const setting of ['locking_mode = exclusive', 'journal_mode = memory', 'synchronous = off'])
    db.pragma(setting);
  return db;
}

function syncFile(file: string): void {
  const fd = openSync(file, 'r+');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** The index of words follows the log as in a daemon. What fails here, the next daemon does. */
function followLog(words: Words, last_seq: number, write: (work: () => void) => void): void {
  try {
    for (let more = true; more; ) more = words.follow(last_seq, write);
  } catch {
    // The log is whole, and the index is behind it.
  }
}

/** The rest of a log whose events were all removed. */
function isUsed(db: Database.Database): boolean {
  return ['gaps', 'usage', 'embedding_usage'].some(
    (table) => db.prepare(`select 1 from ${table} limit 1`).get() !== undefined,
  );
}
