import { once } from 'node:events';
import type { IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import { type AccessOptions, createAccess } from '../access.ts';
import { asSvcError, SvcError } from '../errors.ts';
import { rawHttpError } from '../http-error.ts';
import type { Log } from '../kernel/port.ts';
import { keepAlive } from './heartbeat.ts';
import { type LogQuery, parseLogQuery } from './log-query.ts';
import { type LogSourceOptions, sendLogs } from './logs.ts';

/**
 * The WebSocket side of the HTTP listener: `GET /v1/logs`.
 *
 * 1. An upgrade passes the same door as a request: target, Host, Origin, token. A refusal is an HTTP answer with the error envelope.
 * 2. The daemon closes with 1000 when everything asked for was sent, with 1001 when it stops.
 * 3. What clients send is bounded and ignored.
 */
export interface LogChannelOptions extends AccessOptions, LogSourceOptions {
  log: Log;
}

export interface LogChannel {
  /** Sends what is left, says goodbye with 1001, and cuts off who does not answer in time. */
  close(): Promise<void>;
}

const PATH = '/v1/logs';
const DONE = 1000;
const GOING_AWAY = 1001;
const FAILED = 1011;

export function attachLogChannel(server: Server, options: LogChannelOptions): LogChannel {
  const { limits, log } = options;
  const access = createAccess(options);
  const closing = new AbortController();
  const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false, maxPayload: limits.frame_bytes });
  sockets.on('wsClientError', (_, socket) => refuse(socket, new SvcError('invalid_request', 'This is not a WebSocket handshake.')));
  const admit = (request: IncomingMessage): LogQuery => {
    access.checkSource(request);
    const target = request.url ?? '';
    if (target.split('?')[0] !== PATH) throw new SvcError('route_unknown', `There is no WebSocket here, but at ${PATH}.`);
    access.checkToken(request, 'token');
    if (closing.signal.aborted) throw new SvcError('daemon_stopping');
    return parseLogQuery(target, limits, Date.now());
  };
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on('error', (error) => log.debug({ err: error }, 'an upgrade broke'));
    try {
      const query = admit(request);
      sockets.handleUpgrade(request, socket, head, (client) => void serve(client, query));
    } catch (thrown) {
      refuse(socket, asSvcError(thrown));
    }
  });
  const serve = async (client: WebSocket, query: LogQuery) => {
    client.on('error', (error) => log.debug({ err: error }, 'a log follower broke'));
    keepAlive(client, limits.heartbeat_ms);
    try {
      await sendLogs(client, query, options, closing.signal);
      client.close(closing.signal.aborted ? GOING_AWAY : DONE);
    } catch (thrown) {
      log.error({ err: thrown }, 'the log could not be sent');
      client.close(FAILED);
    }
  };
  return {
    close: async () => {
      closing.abort();
      const cut = setTimeout(() => {
        for (const client of sockets.clients) client.terminate();
      }, limits.goodbye_ms);
      await Promise.all([...sockets.clients].map((client) => once(client, 'close')));
      clearTimeout(cut);
    },
  };
}

function refuse(socket: Duplex, error: SvcError): void {
  socket.end(rawHttpError(error), () => socket.destroy());
}
