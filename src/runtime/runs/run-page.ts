import type { Config } from '../../config/config.ts';
import type { RunListQuery, RunPage, RunRecord } from '../../contract/contract.ts';
import { hasCode } from '../../errors.ts';
import type { EventStore, RunRow } from '../../store/port.ts';
import { shortRecord, textLength } from '../../store/short-run.ts';

/**
 * A page with one run at least. Texts may be large, so a page ends at `page_bytes` or after
 * `PAGE_READS` reads.
 */
export async function runPage(
  { store, config }: { store: Pick<EventStore, 'listRuns'>; config: Pick<Config, 'limits'> },
  { limit: wanted, texts, ...query }: RunListQuery & { asked_by?: string },
  wholeOf: (row: RunRow) => Promise<RunRecord>,
): Promise<RunPage> {
  const limit = Math.min(wanted ?? PAGE_RUNS, config.limits.page_runs);
  const short = texts === 'short';
  const page: RunPage = { runs: [], next: null };
  let [length, count] = [0, 0];
  for (let reads = 0; reads < PAGE_READS; reads += 1) {
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
      if ('damage' in row) {
        page.damaged = [...(page.damaged ?? []), { id: row.run_id, message: row.damage }];
        page.next = row.run_id;
        continue;
      }
      const whole = await wholeOf(row).catch((error: unknown) => damageOf(error, row.run_id));
      if ('message' in whole) {
        page.damaged = [...(page.damaged ?? []), whole];
        page.next = row.run_id;
        continue;
      }
      const run = short ? shortRecord(whole as RunRecord) : whole;
      length += textLength(run);
      if (page.runs.length > 0 && length > config.limits.page_bytes) return page;
      page.runs.push(run);
      page.next = run.id;
    }
  }
  return page;
}

/** A run whose events are damaged. Any other error is thrown. */
function damageOf(error: unknown, id: string): { id: string; message: string } {
  if (!hasCode(error, 'store_corrupt')) throw error;
  return { id, message: error.message };
}

/** Runs of one page without a limit in the query. */
const PAGE_RUNS = 20;
/** Reads of one page. */
const PAGE_READS = 16;
