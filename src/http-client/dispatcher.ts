import type { Socket } from 'node:net';
import type { Dispatcher } from 'undici';
import { isLoopback } from '../config/address.ts';
import { type ErrorCode, SvcError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import { type Proxies, ProxyRefused, proxiesOf } from './proxy.ts';

export interface DispatcherOptions {
  env: NodeJS.ProcessEnv;
  limits: Limits;
  /** Ignore the proxy variables. */
  direct?: boolean;
  /** Connections to one origin. Default: no bound. */
  connections?: number;
  /** The code for a proxy variable that names no proxy. */
  proxyError: ErrorCode;
}

/**
 * Creates the undici dispatcher for requests to another machine.
 *
 * 1. The state machines own the timeouts, so undici waits for headers and body without a limit.
 * 2. The proxy variables apply to other machines only, never to loopback addresses. undici reads
 *    them by other rules: it knows no blocks of addresses, and `*` only alone.
 */
export async function createDispatcher({
  env,
  limits,
  direct = false,
  connections,
  proxyError,
}: DispatcherOptions): Promise<Dispatcher> {
  const { Agent, buildConnector, Dispatcher: Base, ProxyAgent } = await import('undici');
  const connect = { timeout: limits.provider_connect_ms };
  const toServer = buildConnector(connect);
  const options = {
    ...(connections === undefined ? {} : { connections }),
    headersTimeout: 0,
    bodyTimeout: 0,
    maxHeaderSize: limits.provider_header_bytes,
    connect,
  };
  const { http, https, isExcepted } = direct ? DIRECT : readProxies(env, proxyError);
  const agent = new Agent({
    ...options,
    connect: (to, done) =>
      toServer(to, (...[error, socket]: Connected) =>
        error === null ? done(null, readToItsEnd(socket)) : done(error, null),
      ),
  });
  if (http === null && https === null) return agent;
  const viaProxy = (uri: string | null) =>
    uri === null
      ? agent
      : new ProxyAgent({ ...options, uri, proxyTls: connect, requestTls: connect });
  const [plain, secure] = [viaProxy(http), viaProxy(https)];
  const all = [...new Set([agent, plain, secure])];
  /** Chooses the proxy, or none, for each request. */
  return new (class extends Base {
    override dispatch(request: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler) {
      const url = new URL(String(request.origin));
      const isDirect = isLoopback(url.hostname) || isExcepted(url);
      const chosen = isDirect ? agent : url.protocol === 'https:' ? secure : plain;
      return chosen.dispatch(request, handler);
    }
    override async close() {
      await Promise.all(all.map((each) => each.close()));
    }
    override async destroy() {
      await Promise.all(all.map((each) => each.destroy()));
    }
  })();
}

type Connected = [error: null, socket: Socket] | [error: Error, socket: null];

/**
 * A server may end its connection while an answer waits for its reader. Then undici 7 fails in an
 * event of the socket, which would end the process. So its parser resumes before that: the rest is
 * in memory already. Version 8 does this itself, and needs a newer Node.js.
 */
function readToItsEnd(socket: Socket): Socket {
  const goOn = () => {
    const key = Object.getOwnPropertySymbols(socket).find(({ description }) =>
      /parser/i.test(description ?? ''),
    );
    const parser = key === undefined ? null : (Reflect.get(socket, key) as Parser | null);
    if (parser?.paused === true) parser.resume();
    if (parser?.paused !== true || parser.ptr === null) return;
    // The end of the connection is the end of an answer without a length.
    parser.llhttp.llhttp_resume(parser.ptr);
    parser.paused = false;
  };
  for (const event of ['end', 'error', 'close']) socket.prependListener(event, goOn);
  return socket;
}

interface Parser {
  paused: boolean;
  resume(): void;
  ptr: number | null;
  llhttp: { llhttp_resume(ptr: number): void };
}

const DIRECT: Proxies = { http: null, https: null, isExcepted: () => true };

function readProxies(env: NodeJS.ProcessEnv, code: ErrorCode): Proxies {
  try {
    return proxiesOf(env);
  } catch (thrown) {
    if (!(thrown instanceof ProxyRefused)) throw thrown;
    throw new SvcError(code, thrown.message, {
      hint: 'Correct it, and restart the daemon: svc restart',
      retryable: false,
      cause: thrown,
    });
  }
}
