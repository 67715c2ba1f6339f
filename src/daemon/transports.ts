import { parseAddress } from '../config/address.ts';
import type { Config } from '../config/config.ts';
import { hasCode, SvcError } from '../errors.ts';
import { createGrpc } from '../grpc/index.ts';
import type { Paths } from '../home/paths.ts';
import type { DaemonLog } from '../logs/log.ts';
import type { HomeRuntime } from '../operations/port.ts';
import { buildSignIn } from '../transport/auth/sign-in.ts';
import { createTokenAccess } from '../transport/auth/token-access.ts';
import { createMethods } from '../transport/control/methods.ts';
import { ControlServer } from '../transport/control/server.ts';
import { createHttp } from '../transport/http/server.ts';
import { createRefusals } from '../transport/refusals.ts';
import { ServedCertificate } from '../transport/served-certificate.ts';
import { UnsentBytes } from '../transport/stream/unsent-bytes.ts';
import { attachSockets } from '../transport/ws/upgrade.ts';
import type { LiveConfig } from './live-config.ts';
import { routes, socketRoutes } from './routes.ts';

export interface TransportOptions {
  paths: Paths;
  config: Config;
  token: string;
  logging: DaemonLog;
  runtime: HomeRuntime;
  live: LiveConfig;
  /** Further notes for users of the daemon. */
  warnings: () => string[];
}

/**
 * Builds the servers in front of the runtime. They share one budget of unsent bytes. None is bound
 * yet.
 */
export function buildTransports(options: TransportOptions) {
  const { paths, config, token, logging, runtime, live } = options;
  const { limits } = config;
  const { log } = logging;
  const unsent = new UnsentBytes(limits, log);
  const certificate = ServedCertificate.open(config, limits, log);
  const isServed = (name: string) => certificate?.isFor(name) === true;
  const refusals = createRefusals(log, limits.refusal_log_ms);
  const common = { runtime, limits, log, unsent, certificate, isServed };
  const signIn = buildSignIn(paths, config, token, {
    onRotated: () =>
      log.warn({}, 'the token was replaced: clients of the old one are disconnected'),
    session: (line) => log.info({}, line),
    onExpired: (name) => {
      log.info({ token: name }, 'a token was revoked, since its process has ended');
      runtime.runs.cancelAll(name, 'token').catch((error: unknown) => {
        log.warn({ err: error, token: name }, 'its runs could not be cancelled');
      });
    },
  });
  const http = createHttp({
    ...common,
    ...signIn.access,
    refusals,
    routes,
    configuration: live,
    sessions: signIn.sessions,
  });
  const sockets = attachSockets(http, {
    ...common,
    ...signIn.access,
    routes: socketRoutes,
    hub: logging.hub,
    folder: paths.logs,
  });
  const grpc = createGrpc({
    ...common,
    access: createTokenAccess(signIn.access),
    onRefused: (code) => refusals.count(code),
  });
  const listeners = new Listeners({ http, grpc }, config);
  const warning = () =>
    [listeners.warning() ?? [], http.warning() ?? [], options.warnings()].flat().join(' ') || null;
  const home = {
    ...signIn.methods,
    config: () => config,
    configChanges: () => live.changes(),
    applyConfig: () => live.apply(),
    warning,
  };
  const control = new ControlServer({
    socket: paths.socket,
    call: createMethods({ runtime, limits, home }),
    http: (socket) => {
      signIn.admit(socket);
      http.accept(socket);
    },
    limits,
    log,
    unsent,
  });
  return { http, sockets, grpc, control, signIn, certificate, listeners, warning };
}

/** A listener that binds a host and a port, and resolves with its address. */
export interface Listener {
  listen(host: string, port: number): Promise<string>;
}

type Name = 'http' | 'grpc';

interface Moved {
  name: Name;
  wanted: string;
  taken: string;
  code: string;
}

/**
 * Binds the addresses of the daemon.
 *
 * 1. An address of a flag, a variable or the file is bound, or the start fails.
 * 2. A default address that cannot be had is replaced: by a near port, or by any free one. Near
 *    ones come first, so that the next starts most often find the same.
 * 3. Each start tries the default address first.
 */
export class Listeners {
  private readonly parts: Readonly<Record<Name, Listener>>;
  private readonly config: Pick<Config, Name | 'sources'>;
  private readonly moved: Moved[] = [];

  constructor(parts: Readonly<Record<Name, Listener>>, config: Pick<Config, Name | 'sources'>) {
    this.parts = parts;
    this.config = config;
  }

  /** Throws port_in_use, address_refused. */
  async bind(): Promise<Record<Name, string>> {
    return { http: await this.listenOn('http'), grpc: await this.listenOn('grpc') };
  }

  /** A note for users of the default addresses; null for none. */
  warning(): string | null {
    if (this.moved.length === 0) return null;
    const both = (text: (moved: Moved) => string) => this.moved.map(text).join(' and ');
    const wanted = both((moved) => moved.wanted);
    const why = this.moved.every(({ code }) => code === 'port_in_use')
      ? `Another program listens on ${wanted}`
      : `svc cannot listen on ${wanted}`;
    return (
      `${why}, so svc is at ${both(({ name, taken }) => `${taken} (${TITLES[name]})`)}. ` +
      'Programs that are set up for the usual address do not reach it. ' +
      `To keep the new one: ${both(({ name, taken }) => `svc config set ${name} ${taken}`)}`
    );
  }

  private async listenOn(name: Name): Promise<string> {
    const { config } = this;
    const wanted = config[name];
    const { host, port } = parseAddress(wanted) as { host: string; port: number };
    const listen = (at: number) => this.parts[name].listen(host, at);
    try {
      return await listen(port);
    } catch (error) {
      if (!(error instanceof SvcError) || !hasCode(error, 'port_in_use', 'address_refused'))
        throw error;
      if (config.sources[name] !== 'default')
        throw withRequestedAddress(name, config.sources[name], error);
      const address = await listenNearest(listen, port);
      const taken = address.replace(/^\w+:\/\//, '');
      this.moved.push({ name, wanted, taken, code: error.code });
      return address;
    }
  }
}

const TITLES = { http: 'HTTP', grpc: 'gRPC' };
/** Ports that are tried before any free one. The defaults of HTTP and gRPC are neighbours. */
const NEAR = 16;
const STEP = 2;

async function listenNearest(
  listen: (port: number) => Promise<string>,
  port: number,
): Promise<string> {
  for (let at = port + STEP; at <= port + NEAR * STEP; at += STEP) {
    const address = await listen(at).catch((error: unknown) => {
      if (hasCode(error, 'port_in_use', 'address_refused')) return null;
      throw error;
    });
    if (address !== null) return address;
  }
  return listen(0);
}

/** Explains how to take another address, and which source overrides the configuration file. */
function withRequestedAddress(name: Name, source: string | undefined, error: SvcError): SvcError {
  if (error.code !== 'port_in_use') return error;
  const first =
    source === 'flag'
      ? `, without --${name}`
      : source === 'environment'
        ? `, without the variable SVC_${name.toUpperCase()}`
        : '';
  return new SvcError(error.code, error.message, {
    cause: error.cause,
    hint: `Stop that program, or take any free port: svc config set ${name} 127.0.0.1:0${first}`,
  });
}
