import type Database from 'better-sqlite3';
import { EMBEDDINGS, type EmbeddingUsage, embeddingUsage } from './embedding-usage.ts';
import { type EventRow, fromEventRow } from './row.ts';
import type { Texts } from './sqlite/texts-table.ts';
import { type RunUsage, USAGE, type UsageTable } from './usage.ts';
import { HOUR_MS, HOURS_KEPT } from './usage-sums.ts';

/** The keys between which the rows of a table are lost. Null: from the first, to the last one. */
export type Span = readonly [after: Key | null, before: Key | null];
export type Key = readonly unknown[];

/** The sums of usage that must be counted again, in the table `meta`. */
export interface Recount {
  usage?: Span | undefined;
  cache_usage?: Span | undefined;
  embedding_usage?: Span | undefined;
  /** The runs that were accepted up to here are counted. */
  after: number;
  /** Runs that ended later were counted at their end. */
  to_seq: number;
}

/** Runs to fold and to count, and what `recountPart` gets back with their usage. */
export interface RecountPart {
  run_ids: string[];
  after: number;
  to_seq: number;
}

/** Remembers the lost rows, in the transaction of the caller. */
export function saveRecount(db: Database.Database, recount: Recount): void {
  db.prepare(`insert or replace into meta (name, value) values ('recount', ?)`).run(
    JSON.stringify(recount),
  );
}

/**
 * Counts again a part of what a damaged page of the sums of usage had, as far as the log goes back.
 * It is one transaction, so a restart resumes where it was. `usages`: of the runs of the part that
 * ends at `after`. Null: all is counted.
 */
export function recountPart(
  db: Database.Database,
  { usage: table, texts }: { usage: UsageTable; texts: Texts },
  usages: readonly RunUsage[],
  after: number,
): RecountPart | null {
  const recount = readRecount(db);
  if (recount === null) return null;
  const { usage, cache_usage, embedding_usage, to_seq } = recount;
  return db
    .transaction(() => {
      for (const each of usages) {
        const { hour, cloud } = each;
        const key = keyOf({ ...each, hour: storedHour(hour), cloud: cloud ? 1 : 0 }, USAGE.key);
        table.add(each, isLost(key, usage), isLost(key, cache_usage));
      }
      for (const each of embedding_usage === undefined ? [] : embeddingsIn(db, texts, to_seq)) {
        const key = keyOf({ ...each, hour: storedHour(each.hour) }, EMBEDDINGS.key);
        if (isLost(key, embedding_usage)) table.addEmbedding(each);
      }
      const from = Math.max(after, recount.after);
      const runs = db
        .prepare<[number, number, number], { run_id: string; seq: number }>(NEXT)
        .all(from, to_seq, PART_RUNS);
      const last = usage === undefined && cache_usage === undefined ? undefined : runs.at(-1);
      if (last === undefined) {
        db.exec(`delete from meta where name = 'recount'`);
        return null;
      }
      saveRecount(db, { ...recount, embedding_usage: undefined, after: from });
      return { run_ids: runs.map(({ run_id }) => run_id), after: last.seq, to_seq };
    })
    .immediate();
}

function readRecount(db: Database.Database): Recount | null {
  const text = db.prepare<[], string>(`select value from meta where name = 'recount'`);
  return JSON.parse(text.pluck().get() ?? 'null');
}

function embeddingsIn(db: Database.Database, texts: Texts, to_seq: number): EmbeddingUsage[] {
  const rows = db.prepare<[number], EventRow>(EMBEDDED).all(to_seq);
  return rows
    .map((row) => embeddingUsage(fromEventRow({ ...row, data: texts.expand(row.data) })))
    .filter((usage) => usage !== null);
}

const PART_RUNS = 50;
const NEXT = `select stream as run_id, seq from events
  where version = 1 and type = 'run.accepted' and seq > ? and seq <= ? order by seq limit ?`;
const EMBEDDED = `select * from events
  where type in ('provider.embedding_sent', 'provider.embedding_counted') and seq <= ?`;

/** The hour of the row that had it: the hours of old days are folded into their first one. */
function storedHour(hour: number): number {
  const day = hour - (hour % 24);
  return day <= Date.now() / HOUR_MS - HOURS_KEPT - 24 ? day : hour;
}

function keyOf(row: object, names: readonly string[]): Key {
  return ['hour', ...names].map((name) => (row as Record<string, unknown>)[name]);
}

function isLost(key: Key, span: Span | undefined): boolean {
  if (span === undefined) return false;
  const [after, before] = span;
  return (
    (after === null || compare(after, key) < 0) && (before === null || compare(key, before) < 0)
  );
}

/** As SQLite orders them: texts by their bytes. */
function compare(a: Key, b: Key): number {
  for (const [at, one] of a.entries()) {
    const other = b[at];
    const order =
      typeof one === 'number'
        ? one - Number(other)
        : Buffer.compare(Buffer.from(String(one)), Buffer.from(String(other)));
    if (order !== 0) return order;
  }
  return 0;
}
