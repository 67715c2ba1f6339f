import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import polka, { type Polka, type Request } from 'polka';
import type { Settings } from '../../config/settings.ts';
import { check, checkKnown } from '../../contract/check.ts';
import { boundConversation } from '../../contract/inputs.ts';
import { asSvcError, SvcError } from '../../errors.ts';
import { Counter, type Family, gauge } from '../../observability/metrics/tally.ts';
import type { HomeRuntime, Runtime } from '../../operations/port.ts';
import { readQuery } from '../../operations/query.ts';
import { requireScope } from '../../runtime/principal/principal.ts';
import { type AccessLevel, type AccessOptions, createAccess } from '../auth/access.ts';
import { takePathToken } from '../auth/path-token.ts';
import { createSessions, type Sessions } from '../auth/session.ts';
import type { Envelope } from '../http-error.ts';
import { listen, listenOnOtherLoopback, type OtherLoopback } from '../listen.ts';
import { createRefusals, type Refusals } from '../refusals.ts';
import { requestIdOf } from '../request-id.ts';
import type { ServedCertificate } from '../served-certificate.ts';
import { onAbort } from '../stream/on-abort.ts';
import { UnsentBytes } from '../stream/unsent-bytes.ts';
import { readJson } from './body.ts';
import { createConnections } from './connection/connections.ts';
import { createListener } from './connection/listener.ts';
import { IgnoredFields } from './ignored-fields.ts';
import { sendError } from './reply.ts';
import { type Context, type ReadOptions, type Route, scopeOf } from './route.ts';

/**
 * The HTTP listener.
 *
 * 1. Every request passes the same checks: target, Host and Origin first, then the token, its scope
 *    and its bounds if the route needs it.
 * 2. Health needs only the machine's state, so every state of the process has an answer.
 * 3. Every wait has a bound: connections, headers, bodies, answers, streams and closing.
 * 4. The log counts what the checks refuse.
 */
export interface HttpOptions
  extends Omit<AccessOptions, 'sessions' | 'settings'>,
    Pick<Context, 'configuration' | 'limits' | 'log' | 'routes'> {
  runtime: HomeRuntime;
  settings: AccessOptions['settings'] & Partial<Pick<Settings, 'strict_requests'>>;
  /** Null: no TLS. */
  certificate?: ServedCertificate | null;
  /** Shared with the issuer of tickets. */
  sessions?: Sessions;
  /** Shared with the other transports. */
  unsent?: UnsentBytes;
  /** Shared with the other listeners. */
  refusals?: Refusals;
}

export interface Http {
  server: Server;
  /** Serves a connection that needs no TLS, such as one of the local socket. */
  accept(socket: Socket): void;
  /**
   * Keeps the connection for authenticated work until the returned function is called. Throws
   * too_many_connections.
   */
  hold(socket: Duplex): () => void;
  /** Counts a refusal for the log. */
  countRefusal(code: string): void;
  /**
   * Resolves with the address as `http://host:port`, or `https://` with a certificate. Throws
   * port_in_use, address_refused.
   */
  listen(host: string, port: number): Promise<string>;
  /** The problem with the address; null if there is no problem. */
  warning(): string | null;
  /** Ends streams with a last event, lets answers finish for a moment, and closes the rest. */
  close(): Promise<void>;
}

export function createHttp(options: HttpOptions): Http {
  const { runtime, limits, log, sessions = createSessions(options), routes } = options;
  const { configuration, certificate = null } = options;
  const unsent = options.unsent ?? new UnsentBytes(limits, log);
  const access = createAccess({ ...options, sessions });
  const closing = new AbortController();
  const traffic = new Traffic();
  const ignored = new IgnoredFields(log);
  const logged = options.refusals ?? createRefusals(log, limits.refusal_log_ms);
  const refused = (code: string) => {
    logged.count(code);
    traffic.refused(code);
  };
  const connections = createConnections(limits, refused);
  const { server, accept } = createListener(limits, connections, refused, certificate);
  server.on('connection', () => unsent.writes.skipTurn());
  const enter = (req: Request, res: ServerResponse, level?: AccessLevel) => {
    if (closing.signal.aborted || isLeaving(runtime)) res.shouldKeepAlive = false;
    keepToOrigin(res);
    // Before the check, so that an app can read why it is refused.
    allowOrigin(res, access.foreignOrigin(req));
    access.checkSource(req, level);
  };
  const serve = async (route: Route, req: Request, res: ServerResponse) => {
    // One listener for all: each one more costs every request.
    const endCallbacks = [traffic.begin(route.path, req.method ?? '', res)];
    res.once('close', () => {
      for (const end of endCallbacks) end();
    });
    enter(req, res, route.access);
    if (route.requestId !== undefined)
      res.setHeader(route.requestId, res.getHeader('X-Request-Id') ?? '');
    const admission = access.admit(req, route.access);
    // A token has its scope also where a client of this machine needs no token.
    if (route.access === 'token' || route.scope !== undefined)
      requireScope(admission, scopeOf(route));
    if (route.access === 'token') {
      endCallbacks.push(admission.begin(), connections.hold(req.socket));
      const turn = unsent.writes.take(REQUEST_BYTES);
      if (turn !== undefined) await turn;
      if (req.socket.destroyed) return;
      endCallbacks.push(endWith(admission.ended, res, limits.close_grace_ms));
    }
    const { ended, trusted } = admission;
    await route.answer({
      req,
      res,
      sessions,
      limits,
      log,
      unsent,
      routes,
      closing: closing.signal,
      configuration,
      ended,
      trusted,
      runtime: runtime.as(admission),
      traffic: () => traffic.families(connections.count(), unsent.bytes),
      query: queryOf(route, req, limits) as never,
      body: bodyReader(
        route,
        { req, res, limits, ended },
        {
          strict: options.settings.strict_requests === true,
          ignored: (fields) => ignored.tell(res, route.path, fields),
        },
      ) as never,
    });
    countAnswer(res, unsent);
  };
  const fail = (thrown: unknown, req: Request, res: ServerResponse, envelope?: Envelope) => {
    const error = asSvcError(thrown);
    refused(error.code);
    sendError(req, res, error, { log, limits, envelope });
  };
  /** Paths without parameters. A route with parameters does not answer for them. */
  const concrete = Map.groupBy(routes, ({ path }) => path);
  const methodsOf = (path: string) =>
    METHODS.filter((method) =>
      concrete.has(path)
        ? concrete.get(path)?.some((route) => takes(route, method))
        : app.find(method, path).handlers.length > 0,
    );
  const answerNoMatch = (req: Request, res: ServerResponse) => {
    enter(req, res);
    const methods = methodsOf(req.path);
    if (methods.length === 0)
      throw new SvcError('route_unknown', `There is no route ${req.path.slice(0, 200)}.`);
    const allow = [...methods, 'OPTIONS'];
    if (req.method === 'OPTIONS') return sendOptions(req, res, allow);
    throw new SvcError('method_not_allowed', `${req.path} does not take ${req.method}.`, {
      details: { allow },
    });
  };
  const app: Polka = polka({
    onError: (thrown, req, res) => fail(thrown, req, res, errorsNear(routes, req.path)),
    onNoMatch: answerNoMatch,
  });
  const find = app.find.bind(app);
  const known = new Map<string, ReturnType<typeof find>>();
  // The router tries the patterns of all routes, and most requests have a path without parameters.
  app.find = (method, path) => known.get(`${method} ${path}`) ?? find(method, path);
  for (const route of routes) {
    const handle = async (req: Request, res: ServerResponse) => {
      try {
        if (route.path !== req.path && concrete.has(req.path)) answerNoMatch(req, res);
        else await serve(route, req, res);
      } catch (thrown) {
        fail(thrown, req, res, route.errors);
      }
    };
    app.add(route.method, route.path, handle);
    if (!/[:*]/.test(route.path))
      known.set(`${route.method} ${route.path}`, { params: {}, handlers: [handle] });
  }
  // The third parameter is optional, which its type does not say.
  const answer = app.handler as unknown as RequestListener;
  // All requests of one read arrive before the first answer. A connection with too many is closed
  // by then.
  server.on('request', (req, res) => {
    takePathToken(req);
    res.setHeader('X-Request-Id', requestIdOf(req));
    setImmediate(() => req.socket.destroyed || answer(req, res));
  });
  let otherLoopback: OtherLoopback | null = null;
  return {
    server,
    accept,
    hold: connections.hold,
    countRefusal: refused,
    listen: async (host, port) => {
      const address = await listen(
        server,
        host,
        port,
        limits.connections + limits.spare_connections,
      );
      otherLoopback = await listenOnOtherLoopback(
        address,
        (socket) => server.emit('connection', socket),
        { connections: limits.connections, again_ms: limits.port_again_ms },
      );
      return `${certificate === null ? 'http' : 'https'}://${address}`;
    },
    warning: () =>
      otherLoopback === null || otherLoopback.taken === null
        ? null
        : [
            `Another program listens on ${otherLoopback.taken}, so requests to localhost may ` +
              'reach it.',
            'Use 127.0.0.1, and never send the token to localhost.',
          ].join(' '),
    close: async () => {
      closing.abort();
      const cut = setTimeout(connections.destroyAll, limits.close_grace_ms);
      await Promise.all([
        new Promise<void>((resolve) => server.close(() => resolve())),
        otherLoopback?.close(),
      ]);
      clearTimeout(cut);
      logged.close();
    },
  };
}

/**
 * An answer ends with the session or token of its request. It has a moment for its last event, even
 * for a slow reader. Returns what ends the wait.
 */
function endWith(ended: AbortSignal, res: ServerResponse, close_grace_ms: number): () => void {
  ended.throwIfAborted();
  let cut: NodeJS.Timeout | undefined;
  const endWait = onAbort(ended, () => {
    cut = setTimeout(() => res.destroy(), close_grace_ms);
  });
  return () => {
    endWait();
    clearTimeout(cut);
  };
}

/** The form of errors for a path without a route: that of the routes whose paths begin alike. */
function errorsNear(routes: readonly Route[], path = ''): Envelope | undefined {
  const parts = path.split('/');
  let [most, near]: [number, Route | null] = [1, null];
  for (const route of routes) {
    const segments = route.path.split('/');
    const differs = segments.findIndex((segment, index) => segment !== parts[index]);
    const alike = differs < 0 ? segments.length : differs;
    if (alike > most) [most, near] = [alike, route];
  }
  return near?.errors;
}

const METHODS = ['GET', 'HEAD', 'POST', 'DELETE'] as const;

/** A GET route answers HEAD too. */
function takes(route: Route, method: (typeof METHODS)[number]): boolean {
  return route.method === (method === 'HEAD' ? 'GET' : method);
}

/** A daemon that stops keeps no connection open. One that waits for its disk does. */
function isLeaving(runtime: Runtime): boolean {
  return !runtime.probe().ready && LEAVING.has(runtime.health().state);
}

const LEAVING = new Set(['stopping', 'stopped', 'failed']);

/** Counts the unsent bytes of an answer until the system takes them, or the client is gone. */
function countAnswer(res: ServerResponse, unsent: UnsentBytes): void {
  if (res.destroyed || res.writableLength < COUNTED_BYTES) return;
  const outflow = unsent.enter(() => res.destroy());
  res.once('close', () => outflow.leave());
  outflow.setOwnBytes(res.writableLength);
}

/** The cost of a request among waiting writes: it reads the run, and opens a stream. */
const REQUEST_BYTES = 32 * 1024;
/** The number of connections bounds smaller answers. */
const COUNTED_BYTES = 16 * 1024;

/** An allowed page may send any header. The star does not include the first one. */
const REQUEST_HEADERS = 'Authorization, *';
const PREFLIGHT_SECONDS = 600;

/**
 * Keeps pages of other origins from embedding an answer, or from reaching a page that they opened.
 */
function keepToOrigin(res: ServerResponse): void {
  res.setHeader('Cross-Origin-Resource-Policy', 'same-origin');
  res.setHeader('Cross-Origin-Opener-Policy', 'same-origin');
}

/**
 * Lets an allowed page read the answer. Credentials are never allowed: the page needs the token.
 */
function allowOrigin(res: ServerResponse, origin: string | null): void {
  res.setHeader('Vary', 'Origin');
  if (origin === null) return;
  res.setHeader('Access-Control-Allow-Origin', origin);
  res.setHeader('Access-Control-Expose-Headers', '*');
}

/** Answers OPTIONS with the methods of the path, and a preflight with the allowed headers. */
function sendOptions(req: IncomingMessage, res: ServerResponse, methods: readonly string[]): void {
  res.setHeader('Allow', methods.join(', '));
  if (
    res.hasHeader('Access-Control-Allow-Origin') &&
    req.headers['access-control-request-method'] !== undefined
  ) {
    res.setHeader('Access-Control-Allow-Methods', methods.join(', '));
    res.setHeader('Access-Control-Allow-Headers', REQUEST_HEADERS);
    res.setHeader('Access-Control-Max-Age', PREFLIGHT_SECONDS);
    // A page of a public site asks whether it may reach this network.
    if (req.headers['access-control-request-private-network'] === 'true')
      res.setHeader('Access-Control-Allow-Private-Network', 'true');
  }
  res.writeHead(204).end();
}

/**
 * What the HTTP listener does, for monitoring. A request counts under the pattern of its route, so
 * the number of series is bounded.
 */
class Traffic {
  private readonly requests = new Counter(
    'svc_http_requests_total',
    'HTTP requests with an answer, by route, method and class of status.',
  );
  private readonly refusals = new Counter(
    'svc_http_refusals_total',
    'HTTP requests and connections that were refused, by code.',
  );
  private open = 0;

  /** A request has begun. Returns what counts it when its answer has ended. */
  begin(route: string, method: string, res: ServerResponse): () => void {
    this.open += 1;
    return () => {
      this.open -= 1;
      this.requests.add({ route, method, status: `${Math.floor(res.statusCode / 100)}xx` });
    };
  }

  refused(code: string): void {
    this.refusals.add({ code });
  }

  families(connections: number, unsent_bytes: number): Family[] {
    return [
      this.requests.family(),
      this.refusals.family(),
      gauge('svc_http_requests_open', 'HTTP requests without a complete answer.', [
        [{}, this.open],
      ]),
      gauge('svc_http_connections', 'Open HTTP connections.', [[{}, connections]]),
      gauge('svc_unsent_bytes', 'Bytes that clients have not read yet.', [[{}, unsent_bytes]]),
    ];
  }
}

/** The parameters. Throws invalid_request for a parameter that the route does not have. */
function queryOf({ query }: Route, req: Context['req'], limits: Context['limits']): unknown {
  if (query === undefined) return {};
  return readQuery(req.originalUrl, typeof query === 'function' ? query(limits) : query);
}

/**
 * Reads and checks the body when the handler asks for it. `ignored` hears of the fields that are
 * left out. Throws what readJson and check throw.
 */
function bodyReader(
  { body, asksModel, unknownFields, blanks }: Route,
  { req, res, limits, ended }: Pick<Context, 'req' | 'res' | 'limits' | 'ended'>,
  { strict, ignored }: { strict: boolean; ignored(fields: readonly string[]): void },
): (options?: ReadOptions) => Promise<unknown> {
  return async ({
    bytes = limits.body_bytes,
    complete = (value: unknown) => value,
    within_ms,
    values = limits.request_values,
  } = {}) => {
    const options = { ended, values, ...(within_ms === undefined ? {} : { within_ms }) };
    const value = complete(await readJson(req, res, bytes, options));
    if (asksModel) boundConversation(value, limits);
    if (body === undefined) return value;
    if (unknownFields === undefined || (strict && unknownFields === 'may refuse'))
      return check(body, value);
    const known = checkKnown(body, value, { blanks: blanks === true });
    if (known.ignored.length > 0) ignored(known.ignored);
    return known.value;
  };
}
