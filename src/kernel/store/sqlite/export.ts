import { existsSync } from 'node:fs';
import { SvcError } from '../../../errors.ts';
import { EMBEDDINGS, type EmbeddingUsage } from '../embedding-usage.ts';
import { asStoreError } from '../failure.ts';
import { own } from '../files/ownership.ts';
import { fromRunData } from '../row.ts';
import { logName } from '../schema.ts';
import type { LogSource, UsageRow } from '../transfer/port.ts';
import { rowsOf, USAGE } from '../usage.ts';
import type { Shape } from '../usage-sums.ts';
import { type OpenedLog, type OpenOptions, openLog } from './open.ts';
import { Reads } from './reads.ts';

/** Rows of one page. A page also has a size. */
const PAGE = 1000;

/**
 * Opens the log of a stopped daemon to read it whole. Its lock keeps daemons away meanwhile. Null:
 * there is no log. Throws daemon_already_running, and what a daemon says of a damaged log.
 */
export function openSqliteSource(options: OpenOptions): LogSource | null {
  const { database } = options;
  if (!existsSync(database)) return null;
  const { db, last, close } = openAlone(options);
  const reads = new Reads(db, options.limits.store_page_bytes);
  const ask = async <T>(read: () => T): Promise<T> => {
    try {
      return read();
    } catch (error) {
      throw asStoreError(error, database);
    }
  };
  const removed = db
    .prepare<[], number>('select coalesce(sum(last_seq - first_seq + 1), 0) from gaps')
    .pluck();
  return {
    head: {
      store: 'sqlite',
      log_id: logName(db),
      writers: 0,
      events: last.seq - (removed.get() ?? 0),
      last_seq: last.seq,
      has_texts: db.prepare('select 1 from texts limit 1').get() !== undefined,
    },
    page: (from_seq) => ask(() => reads.readStored(from_seq, PAGE)),
    texts: (digests) => ask(() => digests.map((digest) => reads.text(digest))),
    record: (run_id, seq) =>
      ask(() => {
        const head = reads.runHead(run_id);
        if (head === null || !head.finished || head.seq !== seq) return null;
        return fromRunData(reads.getRun(run_id) ?? 'null').record;
      }),
    usage: () => pagesOf(db.prepare<[], StoredUsage>(allOf(USAGE)).iterate(), asUsage),
    embeddings: () =>
      pagesOf(db.prepare<[], EmbeddingUsage>(allOf(EMBEDDINGS)).iterate(), (row) => row),
    close: async () => close(),
  };
}

/** Opens a log that no thread of this process has open. */
export function openAlone(options: OpenOptions): OpenedLog & { close(): void } {
  const release = own(options.database);
  if (release === null)
    throw new SvcError(
      'daemon_already_running',
      `This process has the event log ${options.database} open already.`,
    );
  try {
    const opened = openLog(options);
    const close = () => {
      opened.db.close();
      opened.highWater.close();
      release();
    };
    return { ...opened, close };
  } catch (error) {
    release();
    throw error;
  }
}

type StoredUsage = Omit<UsageRow, 'cloud'> & { cloud: number };

function allOf(shape: Shape): string {
  return `${rowsOf(shape)} order by ${['hour', ...shape.key].join(', ')}`;
}

function asUsage({ cloud, ...row }: StoredUsage): UsageRow {
  const { hour, provider, model, client, ...sums } = row;
  return { hour, provider, model, client, cloud: cloud === 1, ...sums };
}

async function* pagesOf<S, R>(rows: Iterable<S>, as: (row: S) => R): AsyncIterable<R[]> {
  let page: R[] = [];
  for (const row of rows) {
    page.push(as(row));
    if (page.length < PAGE) continue;
    yield page;
    page = [];
  }
  if (page.length > 0) yield page;
}
