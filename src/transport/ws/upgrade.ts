import { once } from 'node:events';
import type { IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import { type RawData, type WebSocket, WebSocketServer } from 'ws';
import type { Settings } from '../../config/settings.ts';
import type { LogQuery } from '../../contract/contract.ts';
import { asSvcError, SvcError } from '../../errors.ts';
import type { EventSlice } from '../../kernel/event-pages.ts';
import type { HomeRuntime } from '../../operations/port.ts';
import { eventQuery, readQuery } from '../../operations/query.ts';
import type { Log } from '../../ports/log.ts';
import { requireScope } from '../../runtime/principal/principal.ts';
import { type AccessOptions, createAccess } from '../auth/access.ts';
import type { Holder } from '../auth/holder.ts';
import { takePathToken } from '../auth/path-token.ts';
import { rawHttpError } from '../http-error.ts';
import type { SocketRoute } from '../socket-route.ts';
import { type Frames, socketMessages } from '../stream/event-forms.ts';
import { onAbort } from '../stream/on-abort.ts';
import { type Outflow, PIECE_BYTES, UnsentBytes } from '../stream/unsent-bytes.ts';
import { parseLogQuery } from './log-query.ts';
import { createLogSender, type LogSourceOptions } from './logs.ts';
import { sendAll } from './send-all.ts';

/**
 * The WebSocket routes of the HTTP listener: `GET /v1/logs`, `GET /v1/events`,
 * `GET /v1/approvals/events`, and the `routes` of third-party APIs.
 *
 * 1. An upgrade passes the same checks as a request: target, Host, Origin, token. A refusal is an
 *    HTTP answer with the error envelope.
 * 2. The daemon closes with 1000 when everything is sent, and with 1001 when it stops.
 * 3. Messages of clients are bounded, and ignored but in a talk.
 * 4. A stream ends with 1008 when its session or token becomes invalid. Nothing is sent from then
 *    on. A client that does not answer the close in time is disconnected.
 */
export interface SocketOptions extends Omit<AccessOptions, 'settings'>, LogSourceOptions {
  settings: AccessOptions['settings'] & Partial<Pick<Settings, 'strict_requests'>>;
  runtime: HomeRuntime;
  routes?: readonly SocketRoute[];
  log: Log;
  /** Shared with the other transports. */
  unsent?: UnsentBytes;
}

/** The HTTP listener behind the upgrades. */
export interface Listener {
  server: Server;
  /** Keeps a connection for a follower. Throws too_many_connections. */
  hold(socket: Duplex): () => void;
  /** Counts a refusal for the log. */
  countRefusal(code: string): void;
}

export interface Sockets {
  /** Sends the rest, closes with 1001, and disconnects clients that do not answer in time. */
  close(): Promise<void>;
}

/** Sends the data until it is all sent or the signal aborts. */
type Sender = (connected: Connected) => Promise<void>;
interface Connected {
  client: WebSocket;
  connection: Duplex;
  outflow: Outflow;
  /** Marks the client as alive. */
  heard: () => void;
  signal: AbortSignal;
  /** Aborted when the client has gone, or its token ends. */
  gone: AbortSignal;
}

/** The stream at a path. `open` reads the query, and returns the function that sends the data. */
interface Place {
  scope: 'read' | 'run' | 'approve';
  sockets: WebSocketServer;
  open(request: IncomingMessage, holder: Holder): Sender;
}

const DONE = 1000;
const GOING_AWAY = 1001;
const NOT_ALLOWED = 1008;
const FAILED = 1011;
const TRY_AGAIN_LATER = 1013;

export function attachSockets(
  { server, hold, countRefusal: refused }: Listener,
  options: SocketOptions,
): Sockets {
  const { limits, log, runtime, unsent = new UnsentBytes(limits, log) } = options;
  const sendLogs = createLogSender(options);
  const access = createAccess(options);
  const closing = new AbortController();
  const serverFor = (maxPayload: number) => {
    const made = new WebSocketServer({ noServer: true, perMessageDeflate: false, maxPayload });
    made.on('wsClientError', (_, socket) =>
      refuse(socket, new SvcError('invalid_request', 'This is not a WebSocket handshake.')),
    );
    return made;
  };
  const [readers, talkers] = [serverFor(limits.client_frame_bytes), serverFor(limits.body_bytes)];
  const places = new Map<string, Place>();
  places.set('/v1/logs', {
    scope: 'read',
    sockets: readers,
    open: ({ url = '' }) => {
      const query = parseLogQuery(url, limits, Date.now());
      return ({ client, outflow, signal }) => sendLogs(client, query, outflow, signal);
    },
  });
  places.set('/v1/events', {
    scope: 'read',
    sockets: readers,
    open: ({ url = '' }, holder) => {
      const query = parseEventQuery(url);
      const { history } = runtime.as(holder);
      return ({ client, connection, outflow, heard, signal }) =>
        sendEvents(
          client,
          connection,
          history.followLog(query, {
            form: socketMessages,
            signal,
            ready: () => outflow.reserve(),
          }),
          outflow,
          heard,
        );
    },
  });
  places.set('/v1/approvals/events', {
    scope: 'approve',
    sockets: readers,
    open: (_, holder) => {
      const { approvals } = runtime.as(holder);
      return async ({ client, outflow, signal }) => {
        for await (const changes of approvals.watch(signal))
          if (!(await sendAll(client, [JSON.stringify(changes)], outflow))) return;
      };
    },
  });
  for (const { path, talk } of options.routes ?? [])
    places.set(path, {
      scope: 'run',
      sockets: talkers,
      open: ({ headers }, holder) => {
        const strict = options.settings.strict_requests === true;
        return ({ client, outflow, signal, gone }) =>
          talk({
            runtime: runtime.as(holder),
            limits,
            log,
            strict,
            headers,
            outflow,
            signal,
            gone,
            messages: (late) => messagesOf(client, [signal, late]),
            send: (texts) => sendAll(client, texts, outflow),
          });
      },
    });
  const admit = (request: IncomingMessage) => {
    access.checkSource(request);
    const path = (request.url ?? '').split('?')[0] ?? '';
    const place = places.get(path);
    if (place === undefined)
      throw new SvcError(
        'route_unknown',
        `There is no WebSocket at this path, only at ${[...places.keys()].join(' and ')}.`,
      );
    const holder = access.admit(request, 'token', true);
    requireScope(holder, place.scope);
    if (closing.signal.aborted) throw new SvcError('daemon_stopping');
    unsent.admit();
    return { send: place.open(request, holder), holder, sockets: place.sockets };
  };
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    if (socket.destroyed) return;
    takePathToken(request);
    socket.on('error', (error) => log.debug({ err: error }, 'an upgrade broke'));
    try {
      const { send, holder, sockets } = admit(request);
      const { ended } = holder;
      socket.once('close', holder.begin());
      socket.once('close', hold(socket));
      sockets.handleUpgrade(
        request,
        socket,
        head,
        (client) => void serve(client, socket, send, ended),
      );
    } catch (thrown) {
      const error = asSvcError(thrown);
      refused(error.code);
      refuse(socket, error);
    }
  });
  const serve = async (client: WebSocket, connection: Duplex, send: Sender, ended: AbortSignal) => {
    client.on('error', (error) => {
      log.debug({ err: error }, 'a follower broke');
      // The close frame is sent. Waiting for its answer would read the rest of the message.
      client.terminate();
    });
    const markAlive = keepAlive(client, limits.heartbeat_ms);
    const over = new AbortController();
    // A composite signal costs more at each wait for an event.
    const endClosing = onAbort(closing.signal, () => over.abort());
    if (closing.signal.aborted) over.abort();
    const left = new AbortController();
    const outflow = unsent.enter(() => client.terminate());
    let cut: NodeJS.Timeout | undefined;
    const endWait = onAbort(ended, () => {
      client.close(NOT_ALLOWED, 'unauthorised');
      cut = setTimeout(() => client.terminate(), limits.close_grace_ms);
      over.abort();
    });
    client.once('close', () => {
      endWait();
      endClosing();
      clearTimeout(cut);
      outflow.leave();
      over.abort();
      // A daemon that stops is not the client: its runs continue at the next start.
      if (!closing.signal.aborted) left.abort();
    });
    try {
      const { signal } = over;
      await send({ client, connection, outflow, heard: markAlive, signal, gone: left.signal });
      client.close(closing.signal.aborted ? GOING_AWAY : DONE);
    } catch (thrown) {
      const error = asSvcError(thrown);
      if (error.code === 'daemon_stopping') return client.close(GOING_AWAY);
      if (error.spec.retryable) return client.close(TRY_AGAIN_LATER, error.code);
      log.error({ err: error.cause ?? error }, 'sending to a follower failed');
      client.close(FAILED, error.code);
    }
  };
  return {
    close: async () => {
      closing.abort();
      const clients = [readers, talkers].flatMap((sockets) => [...sockets.clients]);
      const cut = setTimeout(() => {
        for (const client of clients) client.terminate();
      }, limits.close_grace_ms);
      await Promise.all(clients.map((client) => once(client, 'close')));
      clearTimeout(cut);
    },
  };
}

function refuse(socket: Duplex, error: SvcError): void {
  socket.end(rawHttpError(error), () => socket.destroy());
}

/**
 * `?from=<seq>&follow=1&stream=<name or prefix*>&type=<name or prefix*>`. Throws invalid_request
 * with the name of the parameter.
 */
function parseEventQuery(target: string): LogQuery {
  const { from, follow = false, ...query } = readQuery(target, eventQuery);
  return { ...query, follow, ...(from === undefined ? {} : { from_seq: from }) };
}

/**
 * Pings at each interval, and ends a connection that misses two pongs. Returns a function that
 * marks the peer as alive.
 */
function keepAlive(socket: WebSocket, every_ms: number): () => void {
  let unanswered = 0;
  const timer = setInterval(() => {
    // Its pongs are not read meanwhile.
    if (socket.isPaused) return;
    if (unanswered === 2) return socket.terminate();
    unanswered += 1;
    socket.ping();
  }, every_ms);
  const markAlive = () => {
    unanswered = 0;
  };
  socket.on('pong', markAlive);
  socket.once('close', () => clearInterval(timer));
  return markAlive;
}

/**
 * The messages of a client, one at a time. While one waits, the connection is not read. So at most
 * the rest of one read waits with it. Ends when a signal aborts.
 */
function messagesOf(client: WebSocket, signals: readonly AbortSignal[]): AsyncIterable<Buffer> {
  const waiting: Buffer[] = [];
  let isBusy = false;
  let wake = () => {};
  client.on('message', (data: RawData) => {
    waiting.push(Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data as Buffer));
    if (isBusy) client.pause();
    wake();
  });
  for (const signal of signals) onAbort(signal, () => wake());
  return (async function* () {
    while (!signals.some(({ aborted }) => aborted)) {
      const next = waiting.shift();
      if (next === undefined) {
        client.resume();
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
        continue;
      }
      isBusy = true;
      if (waiting.length === 0) client.resume();
      yield next;
      isBusy = false;
    }
  })();
}

/**
 * Sends events, one a message, as fast as the client reads.
 *
 * 1. All clients of a page are sent the same bytes. So messages go to the connection as whole
 *    frames, past the library, and many of them in one write.
 * 2. The next page is read when the last one is sent. A slow client costs one page, which is
 *    counted.
 * 3. Reading counts as a heartbeat: a slow client's pongs may be stuck behind unread data.
 */
async function sendEvents(
  client: WebSocket,
  connection: Duplex,
  slices: AsyncIterable<EventSlice<Frames>>,
  outflow: Outflow,
  markAlive: () => void,
): Promise<void> {
  for await (const { page, events } of slices) {
    if (client.readyState !== client.OPEN) return;
    const { body } = page;
    outflow.hold(body);
    for (const frames of body.parts(events, PIECE_BYTES)) {
      await outflow.turn(frames.reduce((bytes, { length }) => bytes + length, 0));
      if (client.readyState !== client.OPEN) return;
      await write(connection, frames);
      markAlive();
    }
    outflow.release(body);
  }
}

/** Resolves when the system has taken them, or the connection closed. */
function write(connection: Duplex, frames: readonly Buffer[]): Promise<void> {
  return new Promise((resolve) => {
    const last = frames.length - 1;
    if (last > 0) connection.cork();
    for (const [index, frame] of frames.entries())
      connection.write(frame, index === last ? () => resolve() : undefined);
    if (last > 0) connection.uncork();
  });
}
