import { SvcError } from '../../errors.ts';
import { type AccessOptions, NEVER } from './access.ts';
import { isSame } from './session.ts';

/** Who sent a request with a token. */
export interface Caller {
  /** Aborted, with the reason, when the token becomes invalid. */
  ended: AbortSignal;
}

/** Checks tokens that come as `Bearer <token>`, for calls that no browser can send. */
export interface TokenAccess {
  /** Throws unauthorised, unless each of these is the token and there is one at least. */
  admit(authorizations: readonly string[]): Caller;
}

export function createTokenAccess({
  settings,
  token,
  tokenEnded = () => NEVER,
}: Pick<AccessOptions, 'token' | 'tokenEnded'> & {
  settings: Pick<AccessOptions['settings'], 'auth'>;
}): TokenAccess {
  return {
    admit(authorizations) {
      if (!settings.auth) return { ended: NEVER };
      const secret = token();
      const isRight = (each: string) => secret !== null && isSame(bearerOf(each), secret);
      if (authorizations.length > 0 && authorizations.every(isRight))
        return { ended: tokenEnded() };
      throw new SvcError('unauthorised');
    },
  };
}

/** The token of an Authorization header. Empty text: it has none. */
export function bearerOf(authorization: string): string {
  return /^Bearer +(\S+)$/i.exec(authorization)?.[1] ?? '';
}
