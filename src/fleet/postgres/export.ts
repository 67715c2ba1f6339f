import { SvcError } from '../../errors.ts';
import type { EmbeddingUsage } from '../../kernel/store/embedding-usage.ts';
import type { LogHead, LogSource, UsageRow } from '../../kernel/store/transfer/port.ts';
import { rowsOf } from '../../kernel/store/usage.ts';
import type { Shape } from '../../kernel/store/usage-sums.ts';
import { openSnapshot } from './alone.ts';
import { fromColumn } from './columns.ts';
import type { DatabaseOptions } from './connections.ts';
import type { Read } from './event-reads.ts';
import { HAS_TEXTS, readTexts } from './texts.ts';
import { USED_BY_EMBEDDINGS, USED_BY_RUNS } from './usage.ts';

/** Rows of one page. A page of events also has a size. */
const PAGE = 1000;

/**
 * Reads a shared log as it is now, in one transaction that sees no later commit. Daemons continue
 * meanwhile. Null: the database has no log. Throws store_stalled, store_failed, store_foreign.
 */
export async function openPostgresSource(options: DatabaseOptions): Promise<LogSource | null> {
  return openSnapshot(options, async ({ read, reads, close }) => ({
    head: await readHead(read),
    page: (from_seq) => reads.readRows(from_seq, PAGE),
    texts: (digests) => readTexts(read, digests),
    record: async (run_id, seq) => {
      const run = await reads.getRun(run_id);
      return run === null || !run.finished || run.seq !== seq ? null : run.record;
    },
    usage: () => pagesOf<UsageRow>(read, USAGE),
    embeddings: () => pagesOf<EmbeddingUsage>(read, EMBEDDINGS),
    close,
  }));
}

async function readHead(read: Read): Promise<LogHead> {
  const [row] = await read<Omit<LogHead, 'store' | 'has_texts'>>(
    `select last_seq, last_seq - removed as events,
       (select value from svc_meta where name = 'log_id') as log_id,
       (select count(*) from svc_nodes where gone is null and until > clock_timestamp()) as writers
     from svc_log where id = 1`,
  );
  if (row === undefined) throw new SvcError('store_corrupt', 'The database has no row of the log.');
  const [table] = await read<{ there: boolean }>(HAS_TEXTS);
  const [text] = table?.there === true ? await read('select 1 from svc_texts limit 1') : [];
  return { store: 'postgres', ...row, has_texts: text !== undefined };
}

/** In the order of SQLite. */
const KEY = `hour, provider collate "C", model collate "C", client collate "C"`;
/** Tables of an older version may lack later sums. */
function allOf(shape: Shape): string {
  const name = (sum: string) => `(to_jsonb(u) ->> '${sum}')::float8`;
  return rowsOf({ ...shape, table: `${shape.table} u` }, name);
}
const USAGE = `${allOf(USED_BY_RUNS)} order by ${KEY}, cloud`;
const EMBEDDINGS = `${allOf(USED_BY_EMBEDDINGS)} order by ${KEY}`;

async function* pagesOf<R extends UsageRow | EmbeddingUsage>(
  read: Read,
  query: string,
): AsyncIterable<R[]> {
  await read(`declare rows_of_usage no scroll cursor for ${query}`);
  for (;;) {
    const page = await read<R & Record<string, unknown>>(`fetch ${PAGE} from rows_of_usage`);
    if (page.length === 0) break;
    yield page.map((row) => ({
      ...row,
      provider: fromColumn(row.provider),
      model: fromColumn(row.model),
      client: fromColumn(row.client),
    }));
  }
  await read('close rows_of_usage');
}
