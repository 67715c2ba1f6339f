import { EMBEDDINGS, type EmbeddingSum, embeddingSum } from '../../kernel/store/embedding-usage.ts';
import { ofRuns, type RunSum, USAGE } from '../../kernel/store/usage.ts';
import {
  DAY_ROWS_MAX,
  HOUR_MAX,
  HOURS_KEPT,
  largestSums,
  OTHER_MODELS,
  type Shape,
  SUMS_MAX,
  typeOf,
  type UsageQuery,
  type UsageSums,
} from '../../kernel/store/usage-sums.ts';
import type { ListColumns } from './append/statement.ts';
import { fromColumn, toColumn } from './columns.ts';
import type { Read } from './event-reads.ts';

/** The tables of SQLite, with all sums in one of them. */
export const USED_BY_RUNS = inOneTable(USAGE);
export const USED_BY_EMBEDDINGS = inOneTable(EMBEDDINGS);

function inOneTable({ table, key, sums, beside }: Shape): Shape {
  return { table: `svc_${table}`, key, sums: [...sums, ...(beside?.sums ?? [])] };
}

export function columnsOf({ key, sums }: Shape): string[] {
  return ['hour', ...key, ...sums];
}

/** The same, of rows that a statement gets. */
export function listColumns(shape: Shape): ListColumns<object> {
  return Object.fromEntries(
    columnsOf(shape).map((name) => [
      name,
      { type: typeOf(name), toValue: (row) => (row as Record<string, unknown>)[name] ?? 0 },
    ]),
  );
}

const binary = (column: string) => (column === 'cloud' ? column : `${column} collate "C"`);
const KEYS = { none: 'null::text', day: 'hour / 24', client: binary('client') } as const;

/** Reads what runs and embeddings used. A commit counts it. */
export async function readUsage(
  read: Read,
  { from_hour, before_hour = HOUR_MAX, key, client }: UsageQuery,
): Promise<UsageSums> {
  const of = [from_hour, before_hour, client == null ? null : toColumn(client)];
  const [first] = await read<{ since_hour: number | null }>(
    `select least((select min(hour) from svc_usage), (select min(hour) from svc_embedding_usage))
       as since_hour`,
  );
  const [runs = [], embeddings = []] = await Promise.all(
    [USED_BY_RUNS, USED_BY_EMBEDDINGS].map((shape) =>
      read<Record<string, unknown>>(sumsOf(shape, key), of),
    ),
  );
  return {
    since_hour: first?.since_hour ?? null,
    sums: [
      ...runs.map((row) => ofRuns(texts(row as unknown as RunSum))),
      ...embeddings.map((row) => embeddingSum(texts(row as unknown as EmbeddingSum))),
    ],
  };
}

function sumsOf(shape: Shape, key: UsageQuery['key']): string {
  const others = shape.key.filter((column) => column !== 'client');
  return largestSums(shape, {
    where: 'hour >= $1 and hour < $2 and client = coalesce($3::text, client)',
    max: SUMS_MAX,
    columns: {
      key: KEYS[key ?? 'none'],
      ...Object.fromEntries(others.map((column) => [column, binary(column)])),
    },
    ...(key === 'day' ? { each: 'key' } : {}),
  });
}

function texts<T extends { key: unknown; provider: string; model: string }>(sum: T): T {
  return {
    ...sum,
    key: typeof sum.key === 'string' ? fromColumn(sum.key) : sum.key,
    provider: fromColumn(sum.provider),
    model: fromColumn(sum.model),
  };
}

/** Folds the hours of one old day of each table into its largest rows. False: none was left. */
export async function foldUsage(read: Read, now_hour: number): Promise<boolean> {
  const before = now_hour - HOURS_KEPT - 24;
  let folded = false;
  for (const shape of [USED_BY_RUNS, USED_BY_EMBEDDINGS]) {
    const [found] = await read<{ hour: number }>(
      `select hour / 24 * 24 as hour from ${shape.table} where hour <= $1 group by 1
       having max(hour % 24) > 0
         or count(*) filter (where model <> '${OTHER_MODELS}') > ${DAY_ROWS_MAX} limit 1`,
      [before],
    );
    if (found === undefined) continue;
    await read(foldOf(shape), [found.hour]);
    folded = true;
  }
  return folded;
}

/** One statement, so that what a commit adds meanwhile is counted before or after it. */
function foldOf({ table, key, sums }: Shape): string {
  const largest = largestSums(
    { table: 'gone', key, sums },
    {
      where: 'true',
      max: DAY_ROWS_MAX,
      columns: Object.fromEntries(key.map((column) => [column, binary(column)])),
    },
  );
  return `with gone as (delete from ${table} where hour >= $1 and hour < $1 + 24 returning *),
      largest as (${largest})
    insert into ${table} as u (hour, ${[...key, ...sums].join(', ')})
    select $1, ${[...key, ...sums].join(', ')} from largest
    on conflict (hour, ${key.join(', ')})
      do update set ${sums.map((sum) => `${sum} = u.${sum} + excluded.${sum}`).join(', ')}`;
}
