import { oneLine } from '../../logs/plain.ts';
import { cutTo, padded, widthOf } from '../../logs/width.ts';
import { hanging } from '../../logs/word-wrap.ts';
import { isTerminal, paint } from './output.ts';

const GAP = 2;
/** A narrower column says nothing. */
const WIDTH_MIN = 8;

/**
 * Aligned columns under a heading; the last column is not padded. On a terminal the widest columns
 * are cut until a row fits into a line. The first one stays whole: it has what a user copies.
 */
export function table(
  heading: readonly string[],
  rows: readonly (readonly string[])[],
  columns = columnsOfStdout(),
): string {
  const clean = rows.map((row) => row.map((cell) => oneLine(cell)));
  const wanted = heading.map((name, column) =>
    Math.max(widthOf(name), ...clean.map((row) => widthOf(row[column] ?? ''))),
  );
  const widths = fitted(wanted, columns);
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) => {
        const width = widths[column] ?? 0;
        const cut = cutTo(cell, width);
        return column === row.length - 1 ? cut : padded(cut, width);
      })
      .join(' '.repeat(GAP));
  return [paint('dim', line(heading)), ...clean.map(line)].join('\n');
}

/** Makes the widest column narrower until all fit, or none but the first is wide any more. */
function fitted(wanted: readonly number[], columns: number): number[] {
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
 * between words, and goes on below itself.
 */
export function fields(
  rows: readonly (readonly [name: string, value: string | null])[],
  columns = columnsOfStdout(),
): string {
  const shown = rows.flatMap(([name, value]): [string, string][] =>
    value === null ? [] : [[oneLine(name), oneLine(value)]],
  );
  const width = Math.max(...shown.map(([name]) => widthOf(name)));
  return shown
    .map(([name, value]) => {
      const head = `  ${paint('dim', padded(name, width))}  `;
      return head + hanging(value, width + 4, columns);
    })
    .join('\n');
}
