import type { SCOPES } from '../../contract/words.ts';
import { SvcError } from '../../errors.ts';

/**
 * The scope of a token. `read`: sees all runs. `run`: starts runs, and sees its own. `approve`:
 * decides about tool calls. `admin`: everything.
 */
export type Scope = (typeof SCOPES)[number];

/**
 * The scope that a request needs. `any`: a token of any scope, which then sees what its scope
 * includes.
 */
export type NeededScope = Scope | 'any';

/**
 * The origin of a request: the home, or the holder of a named token. The results of its requests
 * belong to it. The name is the identity: the log has it, so it outlives the token.
 */
export interface Principal {
  /** Null: the home, with its token, a session or the local socket. */
  name: string | null;
  scope: Scope;
  /** Aborted, with the reason, when the token or session becomes invalid. */
  ended: AbortSignal;
  /** Unfinished runs and other requests that it may have at one time. Null: no bound. */
  concurrent: number | null;
  /** Its other requests in progress that began no run. */
  others(): number;
  /** The request has begun a run, which counts instead of it. */
  ran(): void;
}

/** The holder of a named token. */
export type NamedPrincipal = Principal & { name: string };

export const HOME: Principal = {
  name: null,
  scope: 'admin',
  ended: new AbortController().signal,
  concurrent: null,
  others: () => 0,
  ran() {},
};

/** The name of a principal that sees only its own runs. Undefined: it sees all runs. */
export function restrictedNameOf({
  name,
  scope,
}: Pick<Principal, 'name' | 'scope'>): string | undefined {
  return name !== null && (scope === 'run' || scope === 'approve') ? name : undefined;
}

/** Throws scope_insufficient unless the scope of the principal includes the needed one. */
export function requireScope(
  { name, scope }: Pick<Principal, 'name' | 'scope'>,
  needed: NeededScope,
): void {
  if (needed === 'any' || scope === 'admin' || scope === needed) return;
  const why =
    scope === 'run' && needed === 'read'
      ? ' It shows what others asked, and a token with run sees only what it asked itself.'
      : '';
  throw new SvcError(
    'scope_insufficient',
    `The token ${name} has the scope ${scope}, and this request needs ${needed}.${why}`,
    { details: { scope, needed } },
  );
}
