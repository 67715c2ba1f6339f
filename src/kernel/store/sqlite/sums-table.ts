import type Database from 'better-sqlite3';
import { TYPES } from '../schema.ts';
import {
  DAY_ROWS_MAX,
  HOUR_MAX,
  HOUR_ROWS_MAX,
  HOURS_KEPT,
  largestSums,
  NAME_CHARS_MAX,
  OTHER_CLIENTS,
  OTHER_MODELS,
  type Shape,
  SUMS_MAX,
  typeOf,
  type UsageQuery,
} from '../usage-sums.ts';

/** Of some hours, and of one client alone unless it is null. */
const OF_CLIENT =
  'hour >= @from_hour and hour < @before_hour and client = coalesce(@client, client)';

/** The columns of every row. A table has further ones. */
export interface SumsRow {
  hour: number;
  provider: string;
  model: string;
  client: string;
  input_tokens: number;
  output_tokens?: number;
}

/** One table of sums in SQLite: see `usage-sums.ts`. */
export class SumsTable<Row extends SumsRow, Sum> {
  private readonly statements: ReturnType<typeof prepare<Row, Sum>>;
  private readonly besides: readonly (keyof Row)[];
  private readonly zeros: Readonly<Record<string, number>>;
  /** Days before this one have few rows. */
  private foldedTo = 0;

  constructor(db: Database.Database, shape: Shape) {
    this.statements = prepare<Row, Sum>(db, shape);
    const besides = shape.beside?.sums ?? [];
    this.besides = besides as (keyof Row)[];
    this.zeros = Object.fromEntries([...shape.sums, ...besides].map((sum) => [sum, 0]));
  }

  /** In the transaction of the caller. In damaged tables, only to lost rows. */
  add(row: Row, isLost = true, isLostBeside = true): void {
    const placed = isLost ? this.addMain(row) : row;
    if (isLostBeside) this.addBeside(placed);
  }

  /** Returns the row with the names under which it is counted. */
  private addMain(row: Row): Row {
    const { add, insert } = this.statements;
    const isKnown = add.run(row).changes > 0;
    const placed = isKnown ? row : this.placeRow(row);
    if (!isKnown) insert.run(placed);
    return placed;
  }

  /** The same of a row that was placed before. It may lack sums. */
  put(row: object): void {
    const known = Object.entries(row).filter(([, value]) => value !== null);
    const whole = { ...this.zeros, ...Object.fromEntries(known) } as unknown as Row;
    this.statements.insert.run(whole);
    this.addBeside(whole);
  }

  private addBeside(row: Row): void {
    if (this.besides.some((sum) => row[sum] !== 0)) this.statements.insertBeside?.run(row);
  }

  /** Replaces names that are too many or too long. */
  private placeRow(row: Row): Row {
    const { hour, model, input_tokens, output_tokens = 0 } = row;
    const rows = this.statements.rows.get(hour) ?? 0;
    const isNamed = input_tokens + output_tokens !== 0 && model.length <= NAME_CHARS_MAX;
    if (!isNamed || rows >= HOUR_ROWS_MAX)
      return { ...row, model: OTHER_MODELS, client: OTHER_CLIENTS };
    return rows >= HOUR_ROWS_MAX / 2 ? { ...row, client: OTHER_CLIENTS } : row;
  }

  firstHour(): number | null {
    return this.statements.first.get() ?? null;
  }

  sums({ from_hour, before_hour = HOUR_MAX, key, client = null }: UsageQuery): Sum[] {
    return this.statements.sums[key ?? 'none'].all({ from_hour, before_hour, client });
  }

  /** Folds the hours of one old day, in the transaction of the caller. False: none is left. */
  fold(now_hour: number): boolean {
    const { unfolded, ofDay, drop, dropBeside } = this.statements;
    const before = now_hour - HOURS_KEPT - 24;
    const day = unfolded.get(this.foldedTo, before);
    if (day === undefined) {
      this.foldedTo = Math.max(this.foldedTo, before);
      return false;
    }
    const hour = day * 24;
    const rows = ofDay.all(hour, hour + 24);
    drop.run(hour, hour + 24);
    dropBeside?.run(hour, hour + 24);
    for (const row of rows) this.put({ ...row, hour });
    this.foldedTo = hour;
    return true;
  }
}

/** Adds the columns that older versions leave out, unless they are there. */
export function addColumns(db: Database.Database, table: string, names: readonly string[]): void {
  const known = new Set(
    db.prepare<[string], string>('select name from pragma_table_info(?)').pluck().all(table),
  );
  for (const name of names)
    if (!known.has(name))
      db.exec(`alter table ${table} add column ${name} ${TYPES[typeOf(name)]} not null default 0`);
}

function prepare<Row extends SumsRow, Sum>(db: Database.Database, shape: Shape) {
  const { table, key, sums, beside } = shape;
  const plus = (sum: string) => `${sum} = ${sum} + excluded.${sum}`;
  const insertInto = (name: string, columns: readonly string[]) =>
    db.prepare<[Row]>(
      `insert into ${name} (${['hour', ...key, ...columns].join(', ')})
       values (${['hour', ...key, ...columns].map((column) => `@${column}`).join(', ')})
       on conflict do update set ${columns.map(plus).join(', ')}`,
    );
  const dropFrom = (name: string) =>
    db.prepare<[number, number]>(`delete from ${name} where hour >= ? and hour < ?`);
  const others = key.filter((column) => column !== 'client');
  const columnsOf = (by: string) => ({ key: by, ...Object.fromEntries(others.map((c) => [c, c])) });
  const read = (by: string, each?: string) =>
    db.prepare<[{ from_hour: number; before_hour: number; client: string | null }], Sum>(
      largestSums(shape, {
        where: OF_CLIENT,
        columns: columnsOf(by),
        max: SUMS_MAX,
        ...(each === undefined ? {} : { each }),
      }),
    );
  return {
    add: db.prepare<[Row]>(
      `update ${table} set ${sums.map((sum) => `${sum} = ${sum} + @${sum}`).join(', ')}
       where ${['hour', ...key].map((column) => `${column} = @${column}`).join(' and ')}`,
    ),
    insert: insertInto(table, sums),
    insertBeside: beside === undefined ? null : insertInto(beside.table, beside.sums),
    rows: db.prepare<[number], number>(`select count(*) from ${table} where hour = ?`).pluck(),
    first: db.prepare<[], number | null>(`select min(hour) from ${table}`).pluck(),
    sums: { none: read('null'), day: read('hour / 24', 'key'), client: read('client') },
    /** The first day in these hours with rows of hours, or with too many. */
    unfolded: db
      .prepare<[number, number], number>(
        `select hour / 24 from ${table} where hour >= ? and hour <= ? group by 1
         having max(hour % 24) > 0 or sum(model <> '${OTHER_MODELS}') > ${DAY_ROWS_MAX} limit 1`,
      )
      .pluck(),
    ofDay: db.prepare<[number, number], Row>(
      largestSums(shape, {
        where: 'hour >= ? and hour < ?',
        max: DAY_ROWS_MAX,
        columns: Object.fromEntries(key.map((column) => [column, column])),
      }),
    ),
    drop: dropFrom(table),
    dropBeside: beside === undefined ? null : dropFrom(beside.table),
  };
}
