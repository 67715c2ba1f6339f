import type { Config } from '../config/config.ts';
import type { Paths } from '../home/paths.ts';
import type { DaemonLog } from '../logs/log.ts';
import type { HomeRuntime } from '../runtime/port.ts';
import { buildSignIn } from '../transport/auth/sign-in.ts';
import { createTokenAccess } from '../transport/auth/token-access.ts';
import { createMethods } from '../transport/control/methods.ts';
import { ControlServer } from '../transport/control/server.ts';
import { createGrpc } from '../transport/grpc/server.ts';
import { createHttp } from '../transport/http/server.ts';
import { createRefusals } from '../transport/refusals.ts';
import { routes, talks } from '../transport/routes.ts';
import { ServedCertificate } from '../transport/served-certificate.ts';
import { UnsentBytes } from '../transport/stream/unsent-bytes.ts';
import { attachSockets } from '../transport/ws/upgrade.ts';
import { Listeners } from './listeners.ts';
import type { LiveConfig } from './live-config.ts';

export interface TransportOptions {
  paths: Paths;
  config: Config;
  token: string;
  logging: DaemonLog;
  runtime: HomeRuntime;
  live: LiveConfig;
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
    rotated: () => log.warn({}, 'the token was replaced: clients of the old one are disconnected'),
    session: (line) => log.info({}, line),
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
    talks,
    hub: logging.hub,
    folder: paths.logs,
  });
  const grpc = createGrpc({
    ...common,
    access: createTokenAccess(signIn.access),
    onRefused: (code) => refusals.count(code),
  });
  const listeners = new Listeners({ http, grpc }, config);
  /** What is wrong with the addresses. */
  const warning = () => [listeners.warning() ?? [], http.warning() ?? []].flat().join(' ') || null;
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
