import type { IncomingHttpHeaders } from 'node:http';
import type { Limits } from '../limits.ts';
import type { Runtime } from '../operations/port.ts';
import type { Log } from '../ports/log.ts';
import type { Outflow } from './stream/unsent-bytes.ts';

/** A WebSocket whose messages are requests of a third-party API. */
export interface SocketRoute {
  path: string;
  /** Answers until the messages end. Throws daemon_stopping when the daemon stops meanwhile. */
  talk(talk: Talk): Promise<void>;
}

export interface Talk {
  /** What the client may see and change of it. */
  runtime: Runtime;
  limits: Limits;
  log: Log;
  /** Unknown fields are errors. */
  strict: boolean;
  /** The headers of the upgrade. */
  headers: IncomingHttpHeaders;
  /**
   * The messages of the client, in order. The next one is read when the last one is answered. Ends
   * at the signal or `late`. Call it before anything is awaited.
   */
  messages(late: AbortSignal): AsyncIterable<Buffer>;
  /** Counts the data that are read for the client. */
  outflow: Outflow;
  /** Sends one message each. Resolves when the system has them; false when the client is gone. */
  send(texts: readonly string[]): Promise<boolean>;
  /** Aborted when the client has gone, the daemon stops, or the token ends. */
  signal: AbortSignal;
  /** Aborted when the client has gone, or its token ends. */
  gone: AbortSignal;
}
