import type { SvcError } from '../../src/errors.ts';

/** A broken invariant. */
export class Violation extends Error {
  readonly invariant: string;

  constructor(invariant: string, message: string) {
    super(`${invariant}: ${message}`);
    this.name = 'Violation';
    this.invariant = invariant;
  }
}

export function hold(invariant: string, holds: boolean, message: () => string): void {
  if (!holds) throw new Violation(invariant, message());
}

/** An error that a client may get there. */
export function allowed(error: SvcError, codes: readonly string[]): void {
  hold('error', codes.includes(error.code), () => `${error.code}: ${error.message}`);
}
