import type { Config } from '../../config/config.ts';
import { SvcError } from '../../errors.ts';
import { replaceSecret } from '../../home/home.ts';
import type { Paths } from '../../home/paths.ts';
import type { Home } from '../../operations/row.ts';
import type { AccessOptions } from './access.ts';
import { NamedTokens } from './named-tokens.ts';
import { createSessions } from './session.ts';
import { sessionFile } from './session-file.ts';
import { type SignInPage, writeSignInPage } from './sign-in-page.ts';
import { tokenFile } from './token-file.ts';

interface SignInLines {
  /** After the token of the home is replaced. */
  onRotated(): void;
  /** A session of a browser began or ended. */
  session(line: string): void;
  /** After the token of a process that has ended was revoked. */
  onExpired(name: string): void;
}

/**
 * The parts that admit clients: the token of the home, the tokens of programs, the sessions of
 * browsers, and connections of the local socket. Throws home_unusable.
 */
export function buildSignIn(paths: Paths, config: Config, initial: string, says: SignInLines) {
  const token = new Token(paths.token, initial);
  const named = new NamedTokens(tokenFile(paths.tokens), config.limits, Date.now, says.onExpired);
  const sessions = createSessions({
    token: () => token.current,
    limits: config.limits,
    file: sessionFile(paths.sessions),
    note: says.session,
  });
  const locals = new WeakSet<object>();
  return {
    sessions,
    access: {
      settings: config,
      sessions,
      token: () => token.current,
      tokenEnded: () => token.ended,
      named,
      isLocal: (socket) => locals.has(socket),
    } satisfies AccessOptions,
    /** The secrets that the local socket issues and changes. */
    methods: {
      token: () => token.current,
      changeToken: async (): Promise<string> => {
        const fresh = await token.rotate(new SvcError('unauthorised', 'The token was changed.'));
        says.onRotated();
        await sessions.closeAll();
        return fresh;
      },
      tokens: named,
      ticket: (over: () => void): string => sessions.ticket(over),
      signInPage: (url: string): Promise<SignInPage> => writeSignInPage(paths.signIn, url),
    } satisfies Partial<Home>,
    /** Writes the last uses of tokens that are not on disk yet. */
    close: () => named.close(),
    /** Marks a connection of the local socket. */
    admit: (socket: object): void => void locals.add(socket),
  };
}

/**
 * The valid token.
 *
 * 1. A new token is on disk before it is valid, so that a restart never restores the old one.
 * 2. Work that the old token admitted ends with it: the signal of the old token is aborted.
 */
class Token {
  private readonly file: string;
  private value: string;
  private end = new AbortController();

  constructor(file: string, value: string) {
    this.file = file;
    this.value = value;
  }

  get current(): string {
    return this.value;
  }

  /** Aborted when the present token is replaced. */
  get ended(): AbortSignal {
    return this.end.signal;
  }

  /** Throws home_unusable. The present token then stays valid. */
  async rotate(reason: Error): Promise<string> {
    this.value = await replaceSecret(this.file);
    const { end } = this;
    this.end = new AbortController();
    end.abort(reason);
    return this.value;
  }
}
