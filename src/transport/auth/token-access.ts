import { timingSafeEqual } from 'node:crypto';
import { SvcError } from '../../errors.ts';
import { type Holder, unboundedHolder } from './holder.ts';
import type { NamedTokens } from './named-tokens.ts';
import { digestOf, isSame } from './session.ts';

/** The tokens that let a client in. */
export interface TokenSources {
  /** The token of the home. Null while it has none. */
  token(): string | null;
  /** Aborted when the present token of the home becomes invalid. */
  tokenEnded?(): AbortSignal;
  named?: Pick<NamedTokens, 'find'>;
}

/**
 * The holder of what a client sent as its token, once for each place. Null unless all are one valid
 * token.
 */
export function holderOf(
  sent: readonly string[],
  { token, tokenEnded = () => NEVER, named }: TokenSources,
): Holder | null {
  const [first] = sent;
  if (first === undefined || first === '' || hasDifferentTokens(sent)) return null;
  const own = token();
  if (own !== null && timingSafeEqual(digestOf(first), ownDigest(own)))
    return unboundedHolder(tokenEnded());
  return named?.find(first) ?? null;
}

/** The token of the home and its digest, which each request is compared with. */
let known = { token: '', digest: digestOf('') };

/** Only the token of the home itself is looked up: a comparison takes longer the more agrees. */
function ownDigest(own: string): Buffer {
  if (known.token !== own) known = { token: own, digest: digestOf(own) };
  return known.digest;
}

export function hasDifferentTokens(sent: readonly string[]): boolean {
  return sent.slice(1).some((each) => !isSame(each, sent[0] ?? ''));
}

/** Checks tokens that come as `Bearer <token>`, for calls that no browser can send. */
export interface TokenAccess {
  /** Throws unauthorised. */
  admit(authorizations: readonly string[]): Holder;
}

export function createTokenAccess({
  settings,
  ...sources
}: TokenSources & { settings: { auth: boolean } }): TokenAccess {
  return {
    admit(authorizations) {
      const holder = settings.auth
        ? holderOf(authorizations.map(bearerOf), sources)
        : unboundedHolder(NEVER);
      if (holder === null) throw new SvcError('unauthorised');
      return holder;
    },
  };
}

/** The token of an Authorization header. Empty text: it has none. */
export function bearerOf(authorization: string): string {
  return /^Bearer +(\S+)$/i.exec(authorization)?.[1] ?? '';
}

export const NEVER = new AbortController().signal;
