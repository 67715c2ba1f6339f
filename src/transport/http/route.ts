import type { ServerResponse } from 'node:http';
import type { Request } from 'polka';
import type { Log } from '../../kernel/port.ts';
import type { Limits } from '../../limits.ts';
import type { Runtime } from '../../runtime/contract.ts';
import type { UnsentBytes } from '../../runtime/send/unsent-bytes.ts';
import type { Door } from '../auth/access.ts';
import type { Sessions } from '../auth/session.ts';

export interface Route {
  /** A GET route answers HEAD too. */
  method: 'GET' | 'POST' | 'DELETE';
  path: string;
  /** Who may ask. */
  door: Door;
  summary: string;
  answer(context: Context): void | Promise<void>;
}

/** What an answer is made from. */
export interface Context {
  req: Request;
  res: ServerResponse;
  runtime: Runtime;
  sessions: Sessions;
  limits: Limits;
  log: Log;
  unsent: UnsentBytes;
  /** Whether the request may have what needs the token. */
  trusted: boolean;
  /** Aborted, with the reason, when the session or the token that let the request in is not good any more: its streams end. */
  ended: AbortSignal;
  /** Aborted when the listener closes: streams say so and end. */
  closing: AbortSignal;
}
