import type { Server } from 'node:http';
import { LiveConfig } from '../../../src/daemon/live-config.ts';
import { routes, socketRoutes } from '../../../src/daemon/routes.ts';
import type { Log } from '../../../src/ports/log.ts';
import { createSessions } from '../../../src/transport/auth/session.ts';
import type { SessionFile } from '../../../src/transport/auth/session-file.ts';
import type { Route } from '../../../src/transport/http/route.ts';
import { createHttp } from '../../../src/transport/http/server.ts';
import { UnsentBytes } from '../../../src/transport/stream/unsent-bytes.ts';
import { attachSockets } from '../../../src/transport/ws/upgrade.ts';
import { silent } from '../../helpers/kernel.ts';
import { bootRuntime, type RuntimeOptions } from '../../helpers/runtime.ts';
import { ScriptedProvider } from '../../helpers/scripted-provider.ts';
import { type Answer, type Ask, ask, BEARER, TOKEN } from './boot.ts';

/**
 * A listener over the real runtime, with a scripted provider. The test sets the clock of sessions.
 */
export async function bootReal(
  options: Partial<RuntimeOptions> & {
    script?: ScriptedProvider['script'];
    sessionFile?: SessionFile;
    routes?: readonly Route[];
    metrics_public?: boolean;
    strict_requests?: boolean;
    log?: Log;
  } = {},
) {
  const provider = new ScriptedProvider('local', options.script ?? []);
  const daemon = await bootRuntime({ local: provider, ...options });
  const { runtime } = daemon;
  const { config } = daemon;
  const { limits } = config;
  const time = { now: Date.now() };
  const now = () => time.now;
  const token = () => TOKEN;
  const sessions = createSessions({
    token,
    limits,
    now,
    ...(options.sessionFile === undefined ? {} : { file: options.sessionFile }),
  });
  const { metrics_public = false, strict_requests = false, log = silent } = options;
  const allowed_origins = ['https://app.example'];
  const settings = {
    auth: true,
    allowed_origins,
    http: '127.0.0.1:0',
    metrics_public,
    strict_requests,
  };
  const unsent = new UnsentBytes(limits, silent);
  const http = createHttp({
    runtime,
    settings,
    token,
    sessions,
    limits,
    log,
    unsent,
    routes: options.routes ?? routes,
    configuration: new LiveConfig({ config, reload: () => config, onChange: () => {} }),
  });
  const hub = { follow: () => ({ next: async () => null, close() {} }) } as never;
  const sockets = attachSockets(http, {
    runtime,
    routes: socketRoutes,
    hub,
    folder: '/nonexistent',
    settings,
    token,
    sessions,
    limits,
    log: silent,
    unsent,
  });
  const url = await http.listen('127.0.0.1', 0);
  const close = async () => {
    await sockets.close();
    await http.close();
    daemon.kernel.close();
  };
  const asked = (path: string, more: Ask = {}): Promise<Answer> =>
    ask(`${url}${path}`, { ...more, headers: { ...BEARER, ...more.headers } });
  return {
    ...daemon,
    provider,
    http,
    server: http.server as Server,
    sessions,
    sockets,
    unsent,
    time,
    url,
    host: url.slice('http://'.length),
    close,
    get: asked,
  };
}

export type Real = Awaited<ReturnType<typeof bootReal>>;
