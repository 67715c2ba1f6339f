import { hasCode, type SvcError } from '../../errors.ts';
import { FILTER_COLUMNS } from '../../kernel/store/columns.ts';
import type {
  ConversationSums,
  DamagedRun,
  FoundRun,
  LogReads,
  RunBound,
  RunHead,
  RunQuery,
  RunRow,
  SearchQuery,
} from '../../kernel/store/port.ts';
import { damagedRun } from '../../kernel/store/projection.ts';
import { fromRunData } from '../../kernel/store/row.ts';
import { boundsQuery, kindOf } from '../../kernel/store/run-bounds.ts';
import { dataDigest, isSame } from '../../kernel/store/run-digest.ts';
import { isBeginning } from '../../kernel/store/search-terms.ts';
import {
  formOf,
  type RunForm,
  SHORT_RUN,
  TEXTS_ALONE,
  WHOLE_RUN,
} from '../../kernel/store/short-run.ts';
import { BEGIN, END, snippetOf } from '../../kernel/store/snippet.ts';
import { USES } from '../../kernel/store/texts.ts';
import type { UsageQuery, UsageSums } from '../../kernel/store/usage-sums.ts';
import { withSeq } from './append/commit.ts';
import { fromColumn, toColumn } from './columns.ts';
import { clampLimit, EventReads, type Read } from './event-reads.ts';
import { ASKER, firstOfAsker, KINDS, LAST_OF_ASKER, LAST_OF_BOTH } from './schema.ts';
import { expandRows } from './texts.ts';
import { foldText, phraseOf, TEXT_MAX, wordsOf } from './tokens.ts';
import { readUsage } from './usage.ts';

export interface StoredRun {
  run_id: string;
  finished: boolean;
  seq: number;
  data: string;
  digest: Buffer;
}

const COLUMNS = 'run_id, finished, seq, data, digest';

/** Reads a log. A damaged row of a run is store_corrupt, with its `run_id`. */
export class Reads extends EventReads implements LogReads {
  /** A damaged row does not hide the others. */
  async listRuns(query: RunQuery): Promise<(RunRow | DamagedRun)[]> {
    const { limit, before, cloud, conversation, short = false } = query;
    const { asked_by, unfinished = false } = query;
    const kind = kindOf(query.state);
    const values: unknown[] = [clampLimit(limit)];
    const place = (value: unknown) => `$${values.push(value)}`;
    const conditions = [
      ...(before === undefined
        ? []
        : [`accepted_seq < (select accepted_seq from svc_runs where run_id = ${place(before)})`]),
      ...FILTER_COLUMNS.flatMap((name) => {
        const value = query[name];
        return value === undefined ? [] : `${name} = ${place(toColumn(value))}`;
      }),
      ...(kind === null ? [] : [KINDS[kind]]),
      ...(cloud === true ? ['cloud'] : []),
      ...(conversation === undefined ? [] : [inConversation(place(toColumn(conversation)))]),
      ...(query.latest === true ? [LATEST] : []),
      ...(asked_by === undefined ? [] : [`accepted_seq in (${firstOfAsker(place(asked_by))})`]),
      ...(unfinished ? ['not finished'] : []),
    ];
    const rows = await this.read<StoredRun & Record<string, unknown>>(
      `select ${COLUMNS} from svc_runs where run_id in (
         select run_id from (
           select run_id, row_number() over places as place, sum(bytes) over places as size
           from (select run_id, accepted_seq, octet_length(data) as bytes from svc_runs
             where ${['true', ...conditions].join(' and ')} order by accepted_seq desc limit $1) as heads
           window places as (order by accepted_seq desc)
         ) as sized where place = 1 or size <= ${this.options.page_bytes}
       ) order by accepted_seq desc`,
      values,
    );
    const form = short ? SHORT_RUN : WHOLE_RUN;
    return this.runsOf(rows, form, (error, { run_id }) => ({ run_id, damage: error.message }));
  }

  /** Null only if the log has no such run: a missing row is damage. */
  async getRun(run_id: string, only?: 'answer'): Promise<RunRow | null> {
    const row = await this.readStored('run_id = $1', run_id);
    return row === null ? this.nullIfUnknown(run_id) : this.runOf(row, formOf(only));
  }

  async getRunByKey(key: string): Promise<RunRow | null> {
    const row = await this.readStored('idempotency_key = $1', key);
    return row === null ? null : this.runOf(row);
  }

  async readRecord(run_id: string): Promise<Uint8Array | null> {
    const run = await this.getRun(run_id);
    return run === null || !run.finished ? null : Buffer.from(JSON.stringify(run.record));
  }

  async runHead(run_id: string): Promise<RunHead | null> {
    const [head] = await this.read<RunHead & Record<string, unknown>>(
      `select state, finished, seq, coalesce(conversation, run_id) as conversation
         from svc_runs where run_id = $1`,
      [run_id],
    );
    if (head === undefined) return this.nullIfUnknown(run_id);
    return { ...head, state: fromColumn(head.state) };
  }

  async conversationUsage(conversation: string): Promise<ConversationSums> {
    const [sums] = await this.read<ConversationSums & Record<string, unknown>>(CONVERSATION_USAGE, [
      toColumn(conversation),
    ]);
    return sums as ConversationSums;
  }

  async lastRun(origin: string | null, asked_by?: string | null): Promise<string | null> {
    if (asked_by !== undefined) {
      const [query, values] =
        origin === null
          ? [LAST_OF_ASKER, [asked_by]]
          : [LAST_OF_BOTH, [asked_by, toColumn(origin)]];
      return (await this.read<{ run_id: string }>(query, values))[0]?.run_id ?? null;
    }
    const query =
      origin === null
        ? this.read<{ run_id: string }>(
            `select stream as run_id from svc_events where version = 1 and type = 'run.accepted'
               order by seq desc limit 1`,
          )
        : this.read<{ run_id: string }>(
            'select run_id from svc_runs where origin = $1 order by accepted_seq desc limit 1',
            [toColumn(origin)],
          );
    return (await query)[0]?.run_id ?? null;
  }

  async askerOf(run_id: string): Promise<string | null> {
    return (await this.read<{ asked_by: string | null }>(ASKER, [run_id]))[0]?.asked_by ?? null;
  }

  /** Unfinished runs of this node, oldest first. */
  async unfinishedRuns(state?: string): Promise<string[]> {
    return idsOf(
      await this.read(
        `select run_id from svc_runs where not finished and node_id = $1
           and ($2::text is null or state = $2) order by accepted_seq`,
        [this.options.node_id(), state === undefined ? null : toColumn(state)],
      ),
    );
  }

  async runsAt(seq: number, limit: number): Promise<string[]> {
    return idsOf(
      await this.read(
        `select run_id from svc_runs where accepted_seq <= $1 and (not finished or seq >= $1)
           order by accepted_seq limit $2`,
        [seq, clampLimit(limit)],
      ),
    );
  }

  runBounds(boot_id: string, after: number, to: number): Promise<RunBound[]> {
    const query = boundsQuery('svc_events', ['$1', '$2', '$3']);
    return this.read<RunBound & Record<string, unknown>>(query, [boot_id, after, to]);
  }

  async countRuns(): Promise<{ finished: number; unfinished: number }> {
    const [counted] = await this.read<{ finished: number; unfinished: number }>(
      `select count(*) filter (where finished) as finished,
         count(*) filter (where not finished) as unfinished from svc_runs`,
    );
    return counted ?? { finished: 0, unfinished: 0 };
  }

  searchRuns(query: SearchQuery): Promise<FoundRun[]> {
    return searchWords(this.read, query, async (run_id) => {
      const row = await this.readStored('run_id = $1', run_id);
      return row === null ? this.nullIfUnknown(run_id) : this.runOf(row, TEXTS_ALONE);
    });
  }

  usage(query: UsageQuery): Promise<UsageSums> {
    return readUsage(this.read, query);
  }

  /** Runs in a form, up to the size of a page. `onDamaged`: in the place of a damaged one. */
  private runsOf<D>(
    rows: readonly StoredRun[],
    form: RunForm,
    onDamaged: (error: SvcError, row: StoredRun) => D,
  ): Promise<(RunRow | D)[]> {
    const needed = rows.map((row) => neededOf(row, form));
    return expandRows<NeededRun, RunRow | D>(
      this.read,
      needed,
      this.options.page_bytes,
      ({ row, error, data }, expand) => {
        try {
          if (error !== null) throw error;
          const read = form.read(expandRun(row, data, expand));
          return { value: toRun({ ...row, data: read }), size: read.length };
        } catch (error) {
          if (!hasCode(error, 'store_corrupt')) throw error;
          return { value: onDamaged(error, row), size: 0 };
        }
      },
    );
  }

  /** Throws store_corrupt. */
  private async runOf(row: StoredRun, form = WHOLE_RUN): Promise<RunRow> {
    const [run] = await this.runsOf([row], form, (error) => {
      throw error;
    });
    return run as RunRow;
  }

  private async readStored(where: string, value: string): Promise<StoredRun | null> {
    // A name with a NUL character cannot be in a column.
    if (value.includes('\0')) return null;
    const [row] = await this.read<StoredRun & Record<string, unknown>>(
      `select ${COLUMNS} from svc_runs where ${where}`,
      [value],
    );
    return row ?? null;
  }

  private async nullIfUnknown(run_id: string): Promise<null> {
    const accepted = await this.read(
      `select 1 from svc_events where stream = $1 and version = 1 and type = 'run.accepted'`,
      [run_id],
    );
    if (accepted.length > 0) throw damagedRun(run_id, 'is missing');
    return null;
  }
}

/** The problem of a row, as the end of a sentence. */
export function runProblem({ run_id, data, digest }: StoredRun): string | null {
  return isSame(digest, dataDigest(run_id, data)) ? null : 'does not agree with its digest';
}

/** A row with what a form needs of it, or the error of its damage. */
interface NeededRun {
  row: StoredRun;
  data: string;
  error: SvcError | null;
}

function neededOf(row: StoredRun, form: RunForm): NeededRun {
  const problem = runProblem(row);
  return problem === null
    ? { row, data: form.needs(row.data), error: null }
    : { row, data: '', error: damagedRun(row.run_id, problem) };
}

/** Throws store_corrupt. */
function expandRun(row: StoredRun, data: string, expand: (text: string) => string): string {
  try {
    return expand(data);
  } catch (error) {
    if (!hasCode(error, 'store_corrupt')) throw error;
    throw damagedRun(row.run_id, USES);
  }
}

function toRun({ data, seq }: StoredRun): RunRow {
  return withSeq(fromRunData(data), seq);
}

/** Runs that no other run of their conversation follows. */
const LATEST = `not exists (select 1 from svc_runs as later
  where later.conversation = coalesce(svc_runs.conversation, svc_runs.run_id)
    and later.accepted_seq > svc_runs.accepted_seq)`;

/** The later runs of a conversation name its first run. */
function inConversation(first: string): string {
  return `(conversation = ${first} or run_id = ${first} and conversation is null)`;
}

/**
 * Each row is looked into once. Escapes are taken out first: the database refuses some of them, and
 * numbers have none.
 */
const CONVERSATION_USAGE = `
with used as materialized (
  select replace(data, '\\u', '/u')::json #> '{record,usage}' as tokens
  from svc_runs where finished and ${inConversation('$1')}
)
select count(*)::int as runs, ${['input_tokens', 'output_tokens', 'cached_tokens']
  .map((name) => `coalesce(sum((tokens ->> '${name}')::bigint), 0)::bigint as ${name}`)
  .join(', ')},
  count(*) filter (where tokens ->> 'input_tokens' is null or tokens ->> 'output_tokens' is null)::int
    as unknown
from used`;

function idsOf(rows: readonly Record<string, unknown>[]): string[] {
  return rows.map(({ run_id }) => String(run_id));
}

/** Searches the words of finished runs, newest first. */
async function searchWords(
  read: Read,
  { terms, before, asked_by, limit }: SearchQuery,
  getRun: (run_id: string) => Promise<RunRow | null>,
): Promise<FoundRun[]> {
  const phrases = terms.map(phraseOf);
  if (phrases.length === 0 || phrases.includes('')) return [];
  const values: unknown[] = [clampLimit(limit), ...phrases];
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
    typeof text === 'string' ? markTerms(text.slice(0, TEXT_MAX).normalize('NFC'), terms) : '',
  );
  return { run_id, state, provider, model, created_at, conversation, ...snippetOf(texts) };
}

/** The text with marks around the terms. */
function markTerms(text: string, terms: readonly string[]): string {
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
