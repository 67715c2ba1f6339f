import { COUNTED, type Tokens } from '../../../machines/price.ts';
import type { ColumnType } from './columns.ts';

/**
 * Usage by hour, summed by provider and model.
 *
 * 1. Names are texts of clients, so rows are bounded: of an hour, of a day, and of an answer. Usage
 *    without a row of its name is counted under `OTHER_MODELS` and `OTHER_CLIENTS` of its provider.
 * 2. From half of the rows of an hour on, only clients are counted together.
 * 3. A run without tokens makes no row of its name.
 * 4. After `HOURS_KEPT` the hours of a day become one row each of its largest names.
 */

/** The tokens of usage that had a price when its run was accepted, and their cost then. */
export type Priced = Readonly<Record<`priced_${keyof Tokens}` | 'cost', number>>;
export const PRICED = ['cost', ...COUNTED.map((name) => `priced_${name}` as const)] as const;

/** `cost`: in billionths of the currency. Null: there was no price. */
export function pricedTokens(tokens: Tokens, cost: number | null): Priced {
  const of = (name: keyof Tokens) => [`priced_${name}`, cost === null ? 0 : tokens[name]];
  return { cost: cost ?? 0, ...Object.fromEntries(COUNTED.map(of)) };
}

export interface UsageQuery {
  from_hour: number;
  /** The first hour after them. */
  before_hour?: number;
  /** A further key of the sums, besides provider and model. */
  key: 'day' | 'client' | null;
  /** Only the usage of this client. */
  client?: string | null;
}

export interface UsageSum extends Priced {
  /** Days since 1970, or the client. */
  key: string | number | null;
  provider: string;
  model: string;
  cloud: boolean;
  runs: number;
  /** Requests for embeddings. They are counted only at cloud providers. */
  embeddings: number;
  input_tokens: number;
  output_tokens: number;
  /** Input tokens that the provider had in its cache. */
  cached_tokens: number;
  /** Input tokens that it wrote into its cache. */
  cache_write_tokens: number;
  /** Runs whose numbers are estimated. */
  estimated: number;
  /** Requests for embeddings whose numbers are estimated. */
  estimated_embeddings: number;
}

export interface UsageSums {
  /** The first hour that is counted at all; null if nothing is counted. */
  since_hour: number | null;
  sums: UsageSum[];
}

export const HOUR_MS = 3_600_000;
/** After all hours. */
export const HOUR_MAX = Math.floor(Number.MAX_SAFE_INTEGER / HOUR_MS);
/** Rows of names in one hour of one table. */
export const HOUR_ROWS_MAX = 1000;
/** Hours in which each hour has its rows. Before them each day has. */
export const HOURS_KEPT = 3 * 24;
/** Rows of names in one day of one table. */
export const DAY_ROWS_MAX = 100;
/** Names in one answer; by day, in each of its days. */
export const SUMS_MAX = 1000;
/** A longer name of a model has no row. */
export const NAME_CHARS_MAX = 200;
export const OTHER_CLIENTS = '(other clients)';
export const OTHER_MODELS = '(other models)';

/** A table of sums: its key columns and its summed columns. */
export interface Shape {
  readonly table: string;
  readonly key: readonly string[];
  readonly sums: readonly string[];
  /** A table of the same rows with further sums, where there are any. */
  readonly beside?: { readonly table: string; readonly sums: readonly string[] };
}

const OTHER_TYPES: Readonly<Record<string, ColumnType>> = {
  provider: 'text',
  model: 'text',
  client: 'text',
  cloud: 'flag',
  // A whole number too, but one that never overflows.
  cost: 'number',
};

/** The type of a column of these tables. */
export function typeOf(column: string): ColumnType {
  return OTHER_TYPES[column] ?? 'whole';
}

/** The table with the one beside it. */
export function joinTables({ table, key, beside }: Shape): string {
  if (beside === undefined) return table;
  return `${table} left join ${beside.table} using (${['hour', ...key].join(', ')})`;
}

/** The first hour of a query, as far back as hours are kept. Before them it begins a day. */
export function firstHour(from_hour: number, now_hour: number): number {
  return from_hour < now_hour - HOURS_KEPT ? from_hour - (from_hour % 24) : from_hour;
}

/**
 * A query of the largest sums in a part of a table. The rest has the names of the others. Both
 * databases read it. `columns`: the SQL expression of each key column, by its name.
 */
export function largestSums(
  shape: Shape,
  query: { where: string; columns: Readonly<Record<string, string>>; max: number; each?: string },
): string {
  const { sums, beside } = shape;
  const { where, columns, max, each } = query;
  const all = [...sums, ...(beside?.sums ?? [])];
  const summed = all.map((sum) => `coalesce(sum(${sum}), 0) as ${sum}`).join(', ');
  const names = Object.keys(columns);
  const places = names.map((_, index) => index + 1).join(', ');
  const tokens = all.includes('output_tokens') ? 'input_tokens + output_tokens' : 'input_tokens';
  const kept = names.map(
    (name) => `${nameOrOthers(name, columns[name], `place <= ${max}`)} as ${name}`,
  );
  return `select ${kept.join(', ')}, ${summed}
    from (select *, row_number() over (${each === undefined ? '' : `partition by ${each} `}order by
          ${tokens} desc, ${names.join(', ')}) as place
        from (select ${names.map((name) => `${columns[name]} as ${name}`).join(', ')}, ${summed}
            from ${joinTables(shape)} where ${where} group by ${places}) as grouped) as placed
    group by ${places} order by ${places}`;
}

/** The column, or the name of the others. `expression`: the SQL source of the column. */
function nameOrOthers(column: string, expression: string | undefined, condition: string): string {
  const other =
    column === 'model' ? OTHER_MODELS : expression?.startsWith('client') ? OTHER_CLIENTS : null;
  return other === null ? column : `case when ${condition} then ${column} else '${other}' end`;
}
