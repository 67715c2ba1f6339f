import type { FoundRun, RunRow, SearchQuery } from '../../store/port.ts';
import { isBeginning } from '../../store/search-terms.ts';
import { BEGIN, END, snippetOf } from '../../store/snippet.ts';
import { atMost, type Read } from './event-reads.ts';
import { firstOfAsker } from './schema.ts';
import { foldText, phraseOf, TEXT_MAX, wordsOf } from './tokens.ts';

/** Searches the words of finished runs, newest first. */
export async function searchWords(
  read: Read,
  { terms, before, asked_by, limit }: SearchQuery,
  getRun: (run_id: string) => Promise<RunRow | null>,
): Promise<FoundRun[]> {
  const phrases = terms.map(phraseOf);
  if (phrases.length === 0 || phrases.includes('')) return [];
  const values: unknown[] = [atMost(limit), ...phrases];
  const conditions = phrases.map(
    (_, index) => `(prompt @@ $${index + 2}::tsquery or answer @@ $${index + 2}::tsquery)`,
  );
  if (before !== undefined)
    conditions.push(
      `accepted_seq < (select accepted_seq from svc_runs where run_id = $${values.push(before)})`,
    );
  if (asked_by !== undefined)
    conditions.push(`accepted_seq in (${firstOfAsker(`$${values.push(asked_by)}`)})`);
  const ids = await read<{ run_id: string }>(
    `select run_id from svc_words where ${conditions.join(' and ')}
       order by accepted_seq desc limit $1`,
    values,
  );
  const found: FoundRun[] = [];
  // One after the other: a record may be large.
  for (const { run_id } of ids) {
    const run = await getRun(run_id);
    if (run !== null) found.push(foundRun(run, terms));
  }
  return found;
}

function foundRun(row: RunRow, terms: readonly string[]): FoundRun {
  const { run_id, state, provider, model, created_at, conversation = run_id, record } = row;
  const texts = [record?.prompt, record?.output].map((text) =>
    typeof text === 'string' ? marked(text.slice(0, TEXT_MAX).normalize('NFC'), terms) : '',
  );
  return { run_id, state, provider, model, created_at, conversation, ...snippetOf(texts) };
}

/** The text with marks around the terms. */
function marked(text: string, terms: readonly string[]): string {
  const folded = foldText(text);
  const places = terms
    .flatMap((term) => [...folded.matchAll(patternOf(term))])
    .map(({ index, 0: { length } }) => ({ begin: index, end: index + length }))
    .sort((a, b) => a.begin - b.begin);
  let done = 0;
  let result = '';
  for (const { begin, end } of places) {
    if (begin < done) continue;
    result += `${text.slice(done, begin)}${BEGIN}${text.slice(begin, end)}${END}`;
    done = end;
  }
  return result + text.slice(done);
}

function patternOf(term: string): RegExp {
  const words = wordsOf(term).join('[^\\p{L}\\p{N}]+');
  const end = isBeginning(term) ? '[\\p{L}\\p{N}]*' : '';
  return new RegExp(`(?<![\\p{L}\\p{N}])${words}${end}(?![\\p{L}\\p{N}])`, 'gu');
}
