import { appendFileSync } from 'node:fs';
import { median, quantile, ratioOf } from './statistics.ts';

/**
 * What a measurement found. `values` has one number for each round, in `unit`.
 */
export interface Row {
  what: string;
  unit: string;
  /** The program or the floor that was measured. */
  way: string;
  values: readonly number[];
  /** The way that the ratio is against. */
  floor?: string;
}

/** A peer or a floor that this machine does not have, and how to get it. */
export interface Missing {
  way: string;
  how: string;
}

/**
 * The rows of one measurement. `print` writes them as a table, and as a line of JSON to the file
 * BENCH_JSON.
 */
export class Report {
  private readonly name: string;
  private readonly rows: Row[] = [];
  private readonly missing: Missing[] = [];

  constructor(name: string) {
    this.name = name;
  }

  add(row: Row): void {
    this.rows.push(row);
  }

  addMissing(one: Missing): void {
    this.missing.push(one);
  }

  print(): void {
    const found = this.rows.map((row) => ({ ...row, ...summary(row, this.rows) }));
    const table = [
      ['what', 'way', 'median', 'unit', 'p10 to p90', 'ratio'],
      ...found.map((row) => [
        row.what,
        row.way,
        digits(row.median),
        row.unit,
        `${digits(row.p10)} to ${digits(row.p90)}`,
        row.ratio === null ? '' : `${row.ratio.toFixed(2)} of ${row.floor}`,
      ]),
    ];
    for (const line of aligned(table)) console.log(line);
    for (const { way, how } of this.missing) console.log(`${way} is not on this machine: ${how}`);
    const file = process.env.BENCH_JSON;
    if (file === undefined) return;
    const record = { bench: this.name, at: new Date().toISOString(), rows: found };
    appendFileSync(file, `${JSON.stringify({ ...record, missing: this.missing })}\n`);
  }
}

function summary(row: Row, rows: readonly Row[]) {
  const floor = rows.find(({ what, way }) => what === row.what && way === row.floor);
  const ratio =
    floor === undefined || row.way === row.floor ? null : ratioOf(row.values, floor.values);
  const at = (share: number) => quantile(row.values, share);
  return {
    rounds: row.values.length,
    median: median(row.values),
    p10: at(0.1),
    p90: at(0.9),
    ratio,
  };
}

function digits(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

function aligned(table: readonly string[][]): string[] {
  const widths = (table[0] ?? []).map((_, column) =>
    Math.max(...table.map((cells) => cells[column]?.length ?? 0)),
  );
  return table.map((cells) =>
    cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}
