import type { ColumnType } from '../../../kernel/store/columns.ts';
import { TYPES, toParameter } from '../columns.ts';

/** A column of rows that a statement gets: its type, and its value in a row. */
export interface ListColumn<R> {
  type: ColumnType | 'bytea';
  toValue(row: R): unknown;
}
export type ListColumns<R> = Readonly<Record<string, ListColumn<R>>>;

/**
 * Makes the placeholders of a statement. Each one is made in the text, together with the value that
 * it gets from a `C`. The first `before` ones get theirs from the caller.
 */
export class Statement<C> {
  private readonly values: ((from: C) => unknown)[] = [];
  private readonly before: number;

  constructor(before = 0) {
    this.before = before;
  }

  place(type: string, of: (from: C) => unknown): string {
    return `$${this.before + this.values.push(of)}::${type}`;
  }

  /** A table of rows: one list for each column, and their order as `place`. */
  rows<R>(columns: ListColumns<R>, of: (from: C) => readonly R[]): string {
    const lists = Object.values(columns).map(({ type, toValue: value }) =>
      this.place(`${type === 'bytea' ? type : TYPES[type]}[]`, (from) =>
        of(from).map((row) => toParameter(type, value(row))),
      ),
    );
    const names = [...Object.keys(columns), 'place'].join(', ');
    return `unnest(${lists.join(', ')}) with ordinality as given (${names})`;
  }

  valuesOf(from: C): unknown[] {
    return this.values.map((of) => of(from));
  }
}
