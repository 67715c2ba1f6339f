import { SCOPES } from '../../config/settings.ts';
import { SvcError } from '../../errors.ts';

/**
 * What a token allows. `read`: reads and streams. `run`: also runs, and all inference. `admin`:
 * everything. Each scope includes those before it.
 */
export type Scope = (typeof SCOPES)[number];

/** Who sent a request, and what it may do. */
export interface Holder {
  /** Name of the token. Null: the token of the home, a session or the local socket. */
  name: string | null;
  scope: Scope;
  /** Aborted, with the reason, when the token or session becomes invalid. */
  ended: AbortSignal;
  /** Counts a request. It ends when the answer is called. Throws rate_limited. */
  begin(): () => void;
}

/** A client that no bound of a token applies to. */
export function unbounded(ended: AbortSignal): Holder {
  return { name: null, scope: 'admin', ended, begin: () => () => {} };
}

/** Throws scope_insufficient unless the scope of the client includes the needed one. */
export function requireScope({ name, scope }: Pick<Holder, 'name' | 'scope'>, needed: Scope): void {
  if (SCOPES.indexOf(scope) >= SCOPES.indexOf(needed)) return;
  throw new SvcError(
    'scope_insufficient',
    `The token ${name} has the scope ${scope}, and this request needs ${needed}.`,
    { details: { scope, needed } },
  );
}
