import { oneLine } from '../../logs/plain.ts';
import { paint } from './output.ts';

/** Aligned columns under a heading; the last column is not padded. */
export function table(heading: readonly string[], rows: readonly (readonly string[])[]): string {
  const clean = rows.map((row) => row.map((cell) => oneLine(cell)));
  const widths = heading.map((name, column) =>
    Math.max(name.length, ...clean.map((row) => row[column]?.length ?? 0)),
  );
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) => (column === row.length - 1 ? cell : cell.padEnd(widths[column] ?? 0)))
      .join('  ');
  return [paint('dim', line(heading)), ...clean.map(line)].join('\n');
}

/** One name and value per line; null values are omitted. */
export function fields(rows: readonly (readonly [name: string, value: string | null])[]): string {
  const shown = rows.flatMap(([name, value]): [string, string][] =>
    value === null ? [] : [[oneLine(name), oneLine(value)]],
  );
  const width = Math.max(...shown.map(([name]) => name.length));
  return shown.map(([name, value]) => `  ${paint('dim', name.padEnd(width))}  ${value}`).join('\n');
}
