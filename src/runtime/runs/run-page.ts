import type { Config } from '../../config/config.ts';
import type { RunListQuery, RunPage, RunRecord } from '../../contract/contract.ts';
import { hasCode } from '../../errors.ts';
import type { EventStore, RunRow } from '../../kernel/store/port.ts';
import { recordLength, shortRecord } from '../../kernel/store/short-run.ts';

export interface PageSources {
  store: Pick<EventStore, 'listRuns'>;
  config: Pick<Config, 'limits'>;
}

type PageQuery = RunListQuery & { asked_by?: string };

interface PageReads<T> {
  /** The record of a run, also for a row without a record. */
  wholeOf(row: RunRow): Promise<RunRecord>;
  /** The item of the page for a run. */
  show(record: RunRecord, row: RunRow): Promise<T>;
}

type PageOf<T> = Omit<RunPage, 'runs'> & { rows: T[] };

/** A page of runs, mostly with the beginning of their texts. */
export async function runPage(
  sources: PageSources,
  query: PageQuery,
  wholeOf: (row: RunRow) => Promise<RunRecord>,
): Promise<RunPage> {
  const { rows, ...page } = await pageOf(sources, query, { wholeOf, show: async (run) => run });
  return { runs: rows, ...page };
}

/** A page with one run at least. Whole texts may be large, so such a page ends at `page_bytes`. */
export async function pageOf<T>(
  { store, config }: PageSources,
  { limit: wanted, texts, ...query }: PageQuery,
  { wholeOf, show }: PageReads<T>,
): Promise<PageOf<T>> {
  const limit = Math.min(wanted ?? PAGE_RUNS, config.limits.page_runs);
  const short = texts !== 'whole';
  const page: PageOf<T> = { rows: [], next: null };
  let [length, count] = [0, 0];
  for (;;) {
    const rows = await store.listRuns({
      ...query,
      ...(page.next === null ? {} : { before: page.next }),
      short,
      limit: limit - count + 1,
    });
    if (rows.length === 0) return { ...page, next: null };
    for (const row of rows) {
      if (count >= limit) return page;
      count += 1;
      const whole =
        'damage' in row
          ? { id: row.run_id, message: row.damage }
          : await wholeOf(row).catch((error: unknown) => damageOf(error, row.run_id));
      if ('damage' in row || 'message' in whole) {
        page.damaged = [...(page.damaged ?? []), whole as Damage];
        page.next = row.run_id;
        continue;
      }
      const run = short ? shortRecord(whole) : whole;
      length += recordLength(run);
      if (page.rows.length > 0 && length > config.limits.page_bytes) return page;
      page.rows.push(await show(run, row));
      page.next = run.id;
    }
  }
}

type Damage = NonNullable<RunPage['damaged']>[number];

/** A run whose events are damaged. Any other error is thrown. */
function damageOf(error: unknown, id: string): Damage {
  if (!hasCode(error, 'store_corrupt')) throw error;
  return { id, message: error.message };
}

/** Runs of one page without a limit in the query. */
const PAGE_RUNS = 20;
