import type { ClientBase } from 'pg';
import {
  type Compact,
  damagedText,
  digestOf,
  expand,
  hasReferences,
  REFERENCE_PATTERN,
  referencesIn,
} from '../../kernel/store/texts.ts';
import { ROW_BYTES } from './columns.ts';
import type { Read } from './event-reads.ts';

/**
 * The texts of a log, each once, and how many rows and texts refer to each of them, as in
 * `src/kernel/store/sqlite/texts-table.ts`.
 *
 * 1. Counts and texts change only under the lock of the log.
 * 2. A count needs its text. So a commit that counts on a text that has gone is refused.
 * 3. A removal drops the texts that nothing refers to, also those of rows that were replaced.
 */
export const TEXTS = `
create table svc_texts (digest text collate "C" primary key, text text not null);
create table svc_text_users (
  digest text collate "C" primary key references svc_texts,
  users bigint not null
);
create index svc_texts_unused on svc_text_users (digest) where users <= 0`;

export const HAS_TEXTS = `select to_regclass('svc_texts') is not null as there`;

/** The digests to which data refer, as a table with a column `digest`. */
export function referencesOf(data: string): string {
  return `(select distinct m[1] as digest from regexp_matches(${data}, '${REFERENCE_PATTERN}', 'g') as m)`;
}

/** Condition on rows with references. */
export const referringCondition = (data: string) => `strpos(${data}, chr(9)) > 0`;

export interface NewText {
  digest: string;
  text: string;
}

/** A reference: from a text, or from a row (''). */
export interface Use {
  parent: string;
  digest: string;
}

/** Adds texts, in a statement that has `log` and the tables of `texts` and `uses`. */
export function addTexts(texts: string, uses: string): Record<'new_texts' | 'new_users', string> {
  return {
    new_texts: `insert into svc_texts (digest, text)
      select given.digest, given.text from log, ${texts}
      on conflict do nothing returning digest`,
    new_users: `insert into svc_text_users as u (digest, users)
      select used.digest, sum(used.users)::bigint from log, (
        select given.digest, 1 as users from ${uses}
          where given.parent = '' or given.parent in (select digest from new_texts)
        union all select digest, 0 from new_texts
        union all select before.digest, -1 from svc_runs r join given_runs using (run_id),
          lateral ${referencesOf('r.data')} as before where ${referringCondition('r.data')}
      ) as used group by used.digest
      on conflict (digest) do update set users = u.users + excluded.users`,
  };
}

/** Texts that the log has, as far as this process knows. It may forget some. */
export class KnownTexts {
  private digests = new Set<string>();

  /** The texts that a commit of these rows must send. */
  newOf(rows: Iterable<Compact>): { texts: NewText[]; uses: Use[] } {
    const texts = new Map<string, NewText>();
    const uses: Use[] = [];
    const use = (parent: string, data: string, from: Compact['texts']) => {
      for (const digest of referencesIn(data)) {
        uses.push({ parent, digest });
        const text = this.digests.has(digest) ? undefined : from.get(digest);
        if (text === undefined || texts.has(digest)) continue;
        texts.set(digest, { digest, text });
        use(digest, text, from);
      }
    };
    for (const { text, texts: from } of rows) use('', text, from);
    return { texts: [...texts.values()], uses };
  }

  add(texts: readonly NewText[]): void {
    for (const { digest } of texts) this.digests.add(digest);
    if (this.digests.size <= KNOWN_MAX) return;
    this.digests = new Set([...this.digests].slice(-KNOWN_MAX / 2));
  }

  forget(): void {
    this.digests.clear();
  }
}

const KNOWN_MAX = 50_000;

const CLOSURE = `
with recursive found (digest, text) as (
  select digest, text from svc_texts where digest = any($1)
  union select t.digest, t.text from found, lateral ${referencesOf('found.text')} as next
    join svc_texts t using (digest) where ${referringCondition('found.text')}
) select digest, text from found`;

/** A function that finds the texts that these data need. It throws store_corrupt. */
async function readerOf(read: Read, data: readonly string[]): Promise<(digest: string) => string> {
  const digests = [...new Set(data.flatMap(referencesIn))];
  const rows = digests.length === 0 ? [] : await read<NewText & Row>(CLOSURE, [digests]);
  const texts = new Map(rows.map(({ digest, text }) => [digest, text]));
  return (digest) => provenText(digest, texts.get(digest));
}

type Row = Record<string, unknown>;

/** The texts themselves. Throws store_corrupt. */
export async function readTexts(read: Read, digests: readonly string[]): Promise<string[]> {
  const rows = await read<NewText & Row>(
    'select digest, text from svc_texts where digest = any($1)',
    [digests],
  );
  const texts = new Map(rows.map(({ digest, text }) => [digest, text]));
  return digests.map((digest) => provenText(digest, texts.get(digest)));
}

function provenText(digest: string, text: string | undefined): string {
  if (text === undefined) throw damagedText('is missing');
  if (digestOf(text) !== digest) throw damagedText('is damaged');
  return text;
}

/** Throws store_corrupt. */
export async function expandData(read: Read, data: string): Promise<string> {
  return hasReferences(data) ? expand(data, await readerOf(read, [data])) : data;
}

/**
 * Expands rows in their order, up to a size and at least one. `toExpanded` maps each row and its
 * expansion to a result.
 */
export async function expandRows<R extends { data: string }, T>(
  read: Read,
  rows: readonly R[],
  bytes: number,
  toExpanded: (row: R, expand: (data: string) => string) => { value: T; size: number },
): Promise<T[]> {
  const page: T[] = [];
  let size = 0;
  for (let from = 0; from < rows.length; from += STEP_ROWS) {
    const step = rows.slice(from, from + STEP_ROWS);
    const find = await readerOf(
      read,
      step.map(({ data }) => data),
    );
    for (const row of step) {
      const next = toExpanded(row, (data) => expand(data, find));
      size += next.size;
      if (page.length > 0 && size > bytes) return page;
      page.push(next.value);
    }
  }
  return page;
}

/** Rows whose texts are read together. */
const STEP_ROWS = 16;

/** Writes texts again that are damaged, and takes the lock of the log. */
export async function mendTexts(client: ClientBase, { texts }: Compact): Promise<void> {
  await client.query(LOCK);
  await client.query(
    `update svc_texts t set text = given.text from unnest($1::text[], $2::text[]) as given (digest, text)
     where t.digest = given.digest and t.text <> given.text`,
    [[...texts.keys()], [...texts.values()]],
  );
}

const LOCK = 'select 1 from svc_log where id = 1 for update';

/** The texts to which these rows of streams refer, and how often. Under the lock of the log. */
export async function usesOf(client: ClientBase, streams: readonly string[]): Promise<UseCount[]> {
  await client.query(LOCK);
  const { rows } = await client.query<UseCount>(
    `select used.digest, count(*)::int as users from (
       select data from svc_events where stream = any($1) and ${referringCondition('data')}
       union all select data from svc_runs where run_id = any($1) and ${referringCondition('data')}
     ) as gone, lateral ${referencesOf('gone.data')} as used group by used.digest`,
    [streams],
  );
  return rows;
}

export interface UseCount {
  digest: string;
  users: number;
}

/** Bytes of all texts. */
export const TEXT_BYTES = `select coalesce(sum(octet_length(text) + ${ROW_BYTES}), 0) from svc_texts`;

/**
 * About the bytes of the texts that only some rows need. `rows`: their `data`. A text of a run
 * alone has two users at most, its record and its request.
 */
export const ownBytes = (rows: string) => `
with recursive own (digest, text) as (
  select t.digest, t.text from (${rows}) as rows, lateral ${referencesOf('rows.data')} as used
    join svc_text_users u using (digest) join svc_texts t using (digest)
    where u.users <= 2 and ${referringCondition('rows.data')}
  union select t.digest, t.text from own, lateral ${referencesOf('own.text')} as used
    join svc_text_users u using (digest) join svc_texts t using (digest)
    where u.users <= 2 and ${referringCondition('own.text')}
) select coalesce(sum(octet_length(text) + ${ROW_BYTES}), 0) from own`;

/** Drops the texts of rows that were replaced, if there are some. */
export async function dropUnused(client: ClientBase): Promise<void> {
  const { rowCount } = await client.query('select 1 from svc_text_users where users <= 0 limit 1');
  if ((rowCount ?? 0) === 0) return;
  await client.query(LOCK);
  await releaseTexts(client, []);
}

/** Counts these uses down, and drops what nothing refers to. Answers its bytes. */
export async function releaseTexts(client: ClientBase, uses: readonly UseCount[]): Promise<number> {
  let [less, bytes] = [uses, 0];
  for (;;) {
    if (less.length > 0)
      await client.query(
        `update svc_text_users u set users = u.users - less.users
         from unnest($1::text[], $2::bigint[]) as less (digest, users) where u.digest = less.digest`,
        [less.map(({ digest }) => digest), less.map(({ users }) => users)],
      );
    const gone = await client.query<{ digest: string }>(
      'delete from svc_text_users where users <= 0 returning digest',
    );
    if (gone.rows.length === 0) return bytes;
    const { rows } = await client.query<UseCount & { bytes: number }>(
      `with gone as (delete from svc_texts where digest = any($1) returning text)
       select used.digest, count(*)::int as users, 0 as bytes
         from gone, lateral ${referencesOf('gone.text')} as used where ${referringCondition('gone.text')}
         group by used.digest
       union all select '', 0, sum(octet_length(text) + ${ROW_BYTES})::int from gone`,
      [gone.rows.map(({ digest }) => digest)],
    );
    bytes += rows.reduce((sum, row) => sum + row.bytes, 0);
    less = rows.filter(({ users }) => users > 0);
  }
}

/** For how many texts the count is not that of the rows and texts that refer to them. */
export const MISCOUNTED = `
select count(*)::int as texts from (
  select digest, count(*) as users from (
    select data from svc_events where ${referringCondition('data')}
    union all select data from svc_runs where ${referringCondition('data')}
    union all select text from svc_texts where ${referringCondition('text')}
  ) as rows, lateral ${referencesOf('rows.data')} as used group by digest
) as real full join svc_text_users u using (digest)
where coalesce(real.users, 0) <> coalesce(u.users, 0)`;
