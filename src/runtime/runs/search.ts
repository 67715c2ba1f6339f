import { isoTime } from '../../async/clock.ts';
import { invalidRequest } from '../../contract/check.ts';
import type { RunRecord, RunSearchQuery, SearchPage } from '../../contract/contract.ts';
import type { EventStore, FoundRun } from '../../kernel/store/port.ts';
import type { Limits } from '../../limits.ts';

/** Runs of one page without a limit in the query, and words of one search. */
const PAGE_RUNS = 20;
const TERMS_MAX = 32;

/** Finished runs with all these words, newest first. Throws invalid_request. */
export async function searchRuns(
  store: Pick<EventStore, 'searchRuns' | 'unindexedRuns' | 'runHead'>,
  { words, before, limit: wanted = PAGE_RUNS, ...own }: RunSearchQuery & { asked_by?: string },
  { page_runs }: Pick<Limits, 'page_runs'>,
): Promise<SearchPage> {
  const terms = termsOf(words);
  if (terms.length === 0 || terms.length > TERMS_MAX)
    throw invalidRequest(
      'words',
      `words must have 1 to ${TERMS_MAX} words with letters or digits.`,
    );
  if (before !== undefined && (await store.runHead(before)) === null)
    throw invalidRequest('before', 'before must be the id of a run, such as the `next` of a page.');
  const limit = Math.max(1, Math.min(wanted, page_runs));
  const found = await store.searchRuns({
    // The same word again finds nothing more, and costs as much.
    terms: [...new Set(terms.map((term) => term.toLowerCase()))],
    limit: limit + 1,
    ...own,
    ...(before === undefined ? {} : { before }),
  });
  const shown = found.slice(0, limit);
  const runs = shown.flatMap((row) => ('damage' in row ? [] : recordOf(row)));
  const damaged = shown.flatMap((row) =>
    'damage' in row ? { id: row.run_id, message: row.damage } : [],
  );
  const unindexed = (await store.unindexedRuns?.()) ?? 0;
  return {
    runs,
    next: found.length > limit ? (shown.at(-1)?.run_id ?? null) : null,
    ...(damaged.length === 0 ? {} : { damaged }),
    ...(unindexed === 0 ? {} : { unindexed }),
  };
}

function recordOf({ run_id: id, state, created_at, ...run }: FoundRun) {
  return { id, state: state as RunRecord['state'], ...run, created_at: isoTime(created_at) };
}

/**
 * The terms of a search: words, and several words in quotes. A term without letters and digits
 * finds nothing, so it is left out.
 */
export function termsOf(words: string): string[] {
  const terms = words.replace(/\p{Cc}/gu, ' ').match(/"[^"]*"|[^\s"]+/g) ?? [];
  return terms.filter((term) => /[\p{L}\p{N}]/u.test(term)).map((term) => term.replaceAll('"', ''));
}
