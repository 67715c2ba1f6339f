import type { ServerResponse } from 'node:http';
import type { Request } from 'polka';
import type { Log } from '../../kernel/port.ts';
import type { Limits } from '../../limits.ts';
import type { Runtime } from '../../runtime/contract.ts';
import type { UnsentBytes } from '../../runtime/send/unsent-bytes.ts';
import type { AccessLevel } from '../auth/access.ts';
import type { Sessions } from '../auth/session.ts';
import type { Envelope } from '../http-error.ts';

export interface Route {
  /** A GET route answers HEAD too. */
  method: 'GET' | 'POST' | 'DELETE';
  path: string;
  /** Who may send the request. */
  access: AccessLevel;
  summary: string;
  /** The form of its errors. Absent: svc's own, which OpenAI clients understand. */
  errors?: Envelope;
  answer(context: Context): void | Promise<void>;
}

/** What a handler works with. */
export interface Context {
  req: Request;
  res: ServerResponse;
  runtime: Runtime;
  sessions: Sessions;
  limits: Limits;
  log: Log;
  unsent: UnsentBytes;
  /** True for a client that may see what needs the token. */
  trusted: boolean;
  /**
   * Aborted, with the reason, when the session or token of the request becomes invalid. Its streams
   * end.
   */
  ended: AbortSignal;
  /** Aborted when the listener closes. Streams send a last event and end. */
  closing: AbortSignal;
}
