import { oneLine } from '../../../logs/plain.ts';
import { cutTo, padTo, widthOf } from '../../../logs/width.ts';
import { wrapHanging } from '../../../logs/word-wrap.ts';
import { isTerminal, paint } from './output.ts';

const GAP = 2;
/** A narrower column says nothing. */
const WIDTH_MIN = 8;

export interface TableForm {
  columns?: number;
  /** Columns that are left out, the first one first, where a line has no place for all. */
  spare?: readonly string[];
}

/**
 * Aligned columns under a heading; the last column is not padded. On a terminal the widest columns
 * are cut until a row fits into a line. The first one stays whole: users copy its value.
 */
export function table(
  heading: readonly string[],
  rows: readonly (readonly string[])[],
  { columns = columnsOfStdout(), spare = [] }: TableForm = {},
): string {
  const clean = rows.map((row) => row.map((cell) => oneLine(cell)));
  const wanted = heading.map((name, column) =>
    Math.max(widthOf(name), ...clean.map((row) => widthOf(row[column] ?? ''))),
  );
  let shown = heading.map((_, column) => column);
  const shownOf = <T>(cells: readonly T[]) => shown.map((column) => cells[column] as T);
  for (const name of spare) {
    if (leastWidth(shownOf(wanted)) <= columns) break;
    shown = shown.filter((column) => column !== heading.indexOf(name));
  }
  const widths = fitWidths(shownOf(wanted), columns);
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) => {
        const width = widths[column] ?? 0;
        const cut = cutTo(cell, width);
        return column === row.length - 1 ? cut : padTo(cut, width);
      })
      .join(' '.repeat(GAP));
  return [paint('dim', line(shownOf(heading))), ...clean.map(shownOf).map(line)].join('\n');
}

/** Columns that a row needs when all of its cells but the first are cut as far as they may be. */
function leastWidth(wanted: readonly number[]): number {
  const widths = wanted.map((width, column) => (column === 0 ? width : Math.min(width, WIDTH_MIN)));
  return widths.reduce((sum, width) => sum + width + GAP, -GAP);
}

/** Makes the widest column narrower until all fit, or none but the first is wide any more. */
function fitWidths(wanted: readonly number[], columns: number): number[] {
  const widths = [...wanted];
  let over = widths.reduce((sum, width) => sum + width + GAP, -GAP) - columns;
  while (over > 0) {
    const rest = widths.slice(1);
    const widest = Math.max(...rest);
    if (rest.length === 0 || widest <= WIDTH_MIN) break;
    const next = Math.max(WIDTH_MIN, ...rest.filter((width) => width < widest));
    const step = Math.min(over, widest - next);
    widths[1 + rest.lastIndexOf(widest)] = widest - Math.max(1, step);
    over -= Math.max(1, step);
  }
  return widths;
}

/**
 * A pipe has no width: a program gets each cell and each line whole. Some terminals do not say
 * theirs.
 */
export function columnsOfStdout(): number {
  return (isTerminal(1) && process.stdout.columns) || Number.POSITIVE_INFINITY;
}

/**
 * One name and value per line; null values are omitted. On a terminal a long value is broken
 * between words, and continues below itself.
 */
export function fields(
  rows: readonly (readonly [name: string, value: string | null])[],
  columns = columnsOfStdout(),
): string {
  const shown = rows.flatMap(([name, value]): [string, string][] =>
    value === null ? [] : [[oneLine(name), oneLine(value)]],
  );
  const width = Math.max(...shown.map(([name]) => widthOf(name)));
  return beside(
    shown.map(([name, value]) => [`  ${paint('dim', padTo(name, width))}  `, value]),
    width + 4,
    columns,
  );
}

/** Texts beside their heads, which are so wide. Where a text has no place there, it is below. */
export function beside(
  rows: readonly (readonly [head: string, text: string])[],
  width: number,
  columns: number,
): string {
  const room = columns - width;
  const isNarrow =
    room < BESIDE_MIN && width > BELOW && rows.some(([, text]) => widthOf(text) > room);
  return rows
    .map(([head, text]) =>
      isNarrow
        ? `${head.trimEnd()}\n${' '.repeat(BELOW)}${wrapHanging(text, BELOW, columns)}`
        : head + wrapHanging(text, width, columns),
    )
    .join('\n');
}

const BESIDE_MIN = 20;
const BELOW = 6;
