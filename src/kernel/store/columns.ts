import type { RunRow } from './port.ts';

/**
 * The stored columns of events and of runs, each once. Both stores build their tables and their
 * statements from here.
 */

/**
 * `id` and `name`: a text that was checked. An id is read in order. `text`: any other. `json` has
 * only escaped characters.
 */
export type ColumnType = 'id' | 'name' | 'text' | 'json' | 'flag' | 'whole' | 'number';

interface Column {
  type: ColumnType;
  isNull?: true;
}

export const EVENT_COLUMNS = {
  seq: { type: 'whole' },
  stream: { type: 'id' },
  version: { type: 'whole' },
  type: { type: 'name' },
  schema: { type: 'whole' },
  at: { type: 'number' },
  boot_id: { type: 'name' },
  data: { type: 'json' },
} as const satisfies Record<string, Column>;

export type EventColumn = keyof typeof EVENT_COLUMNS;
export const EVENT_NAMES = Object.keys(EVENT_COLUMNS) as EventColumn[];

/** The fields of an event, and no others. */
export function eventOf<E extends Record<EventColumn, unknown>>(event: E): Pick<E, EventColumn> {
  const { seq, stream, version, type, schema, at, boot_id, data } = event;
  return { seq, stream, version, type, schema, at, boot_id, data };
}

type Value = string | number | null;

export interface RunColumn extends Column {
  /** Its value in the row of a run. Absent: the store finds it in the events. */
  of?: (row: RunRow) => Value;
  /**
   * Where it is in SQLite. `row`: in the table of runs, and in the digest of its fields, whose form
   * never changes. `beside`: in a table that follows from the log. A path: in the JSON of the row,
   * with an index. So old rows have it, and older versions keep it up to date. Absent: one daemon
   * does not need it.
   */
  sqlite?: 'row' | 'beside' | `$.${string}`;
  /** A list can be filtered by it. */
  isFilter?: true;
  /** What a later row of the run does with it. Absent: it replaces the value. */
  later?: 'keeps' | 'adds';
  /** The version of the tables in PostgreSQL that has it first. Absent: the first one. */
  since?: number;
}

/** The columns of a run beside its data, in the order of the digest. */
export const RUN_COLUMNS = {
  run_id: { type: 'id', sqlite: 'row', later: 'keeps', of: (row) => row.run_id },
  accepted_seq: { type: 'whole', sqlite: 'row', later: 'keeps' },
  idempotency_key: { type: 'name', isNull: true, sqlite: 'row', of: (row) => row.idempotency_key },
  finished: { type: 'flag', sqlite: 'row', of: (row) => (row.finished ? 1 : 0) },
  /** When the last event of a finished run was. */
  ended_at: { type: 'number', isNull: true, sqlite: 'row' },
  state: { type: 'text', sqlite: 'row', isFilter: true, of: (row) => row.state },
  provider: { type: 'text', sqlite: 'row', isFilter: true, of: (row) => row.provider },
  seq: { type: 'whole', sqlite: 'row', of: (row) => row.seq },
  model: { type: 'text', sqlite: '$.model', isFilter: true, of: (row) => row.model },
  client: { type: 'text', later: 'keeps', of: (row) => row.client ?? '' },
  cloud: { type: 'flag', sqlite: 'beside', later: 'adds', of: (row) => (row.cloud ? 1 : 0) },
  conversation: {
    type: 'text',
    isNull: true,
    sqlite: 'beside',
    later: 'keeps',
    of: (row) => row.conversation ?? null,
  },
  origin: {
    type: 'text',
    isNull: true,
    sqlite: 'beside',
    later: 'keeps',
    of: (row) => row.origin ?? null,
  },
  due_at: { type: 'number', isNull: true, since: 2, of: (row) => row.due_at ?? null },
} as const satisfies Record<string, RunColumn>;

export type RunColumnName = keyof typeof RUN_COLUMNS;
export const RUN_NAMES = Object.keys(RUN_COLUMNS) as RunColumnName[];

/** Columns by which a list is filtered, by equality. */
export type FilterColumn = {
  [N in RunColumnName]: (typeof RUN_COLUMNS)[N] extends { isFilter: true } ? N : never;
}[RunColumnName];
export const FILTER_COLUMNS = RUN_NAMES.filter(
  (name): name is FilterColumn => columnOf(name).isFilter === true,
);

export function columnOf(name: RunColumnName): RunColumn {
  return RUN_COLUMNS[name];
}

export function runColumns(names: readonly RunColumnName[]): Record<string, Column> {
  return Object.fromEntries(names.map((name) => [name, RUN_COLUMNS[name]]));
}

/** How a database names the types. */
export type ColumnTypes = Readonly<Record<ColumnType, string>>;

/** The columns of a table, as its database creates them. */
export function columnsText(
  types: ColumnTypes,
  primary: string,
  columns: Readonly<Record<string, Column>>,
): string {
  return Object.entries(columns)
    .map(([name, { type, isNull }]) => {
      const rule = name === primary ? ' primary key' : isNull ? '' : ' not null';
      return `${name} ${types[type]}${rule}`;
    })
    .join(',\n  ');
}

type Given<C> = C extends { of: (row: RunRow) => infer V } ? V : never;
type GivenName = {
  [N in RunColumnName]: (typeof RUN_COLUMNS)[N] extends { of: unknown } ? N : never;
}[RunColumnName];
/** The columns of a row that its events do not say. */
export type RunValues = { [N in GivenName]: Given<(typeof RUN_COLUMNS)[N]> };

const GIVEN = RUN_NAMES.filter((name) => 'of' in RUN_COLUMNS[name]) as GivenName[];

export function runValues(row: RunRow): RunValues {
  const values: Partial<Record<GivenName, Value>> = {};
  for (const name of GIVEN) values[name] = RUN_COLUMNS[name].of(row);
  return values as RunValues;
}
