import { HOME, type Principal } from '../../runtime/principal/principal.ts';

/** Who sent a request, and what it may do. */
export interface Holder extends Principal {
  /** Counts a request. It ends when the answer is called. Throws rate_limited. */
  begin(): () => void;
}

/** A client of the home itself, which no bound of a token applies to. */
export function unboundedHolder(ended: AbortSignal): Holder {
  return { ...HOME, ended, begin: () => () => {} };
}
