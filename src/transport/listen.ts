import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { hasCode, SvcError } from '../errors.ts';

/**
 * Binds a listener and resolves with its address as `host:port`. `backlog` bounds the connections
 * that wait for the event loop, which accepts one a turn. The system drops more, and clients retry
 * after 1, 3 and 7 seconds. Throws port_in_use, address_refused.
 */
export async function listen(
  server: Server,
  host: string,
  port: number,
  backlog = BACKLOG,
): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    const rejectBind = (error: NodeJS.ErrnoException) => {
      server.off('listening', resolveBound);
      reject(bindError(error, host, port));
    };
    const resolveBound = () => {
      server.off('error', rejectBind);
      resolve();
    };
    server.once('error', rejectBind);
    server.once('listening', resolveBound);
    server.listen({ host, port, backlog: Math.max(backlog, BACKLOG) });
  });
  const { address, family, port: taken } = server.address() as AddressInfo;
  return family === 'IPv6' ? `[${address}]:${taken}` : `${address}:${taken}`;
}

/** The default of Node.js. */
const BACKLOG = 511;

function bindError(error: NodeJS.ErrnoException, host: string, port: number): SvcError {
  const address = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
  if (error.code === 'EADDRINUSE')
    return new SvcError('port_in_use', `Another program listens on ${address}.`, { cause: error });
  return new SvcError(
    'address_refused',
    `The address ${address} cannot be bound (${error.code ?? 'unknown'}).`,
    { cause: error },
  );
}

/** The second address of a listener on loopback. */
export interface OtherLoopback {
  /** The address that another program has now; null otherwise. */
  readonly taken: string | null;
  close(): Promise<void>;
}

export interface OtherLoopbackOptions {
  connections: number;
  /** Between two tries to bind an address that another program has. */
  again_ms: number;
}

/**
 * Binds the other loopback address at the same port. Otherwise another user could listen there for
 * requests to `localhost`. Connections go to `accept`. An address that another program has is bound
 * when that program leaves. An address that is not loopback needs nothing, nor does a machine
 * without the other loopback.
 */
export async function listenOnOtherLoopback(
  address: string,
  accept: (socket: Socket) => void,
  { connections, again_ms }: OtherLoopbackOptions,
): Promise<OtherLoopback> {
  const [, host = '', port = ''] = /^(.+):(\d+)$/.exec(address) ?? [];
  const other = host === '127.0.0.1' ? '::1' : host === '[::1]' ? '127.0.0.1' : null;
  if (other === null) return NOTHING_BESIDE;
  let server: Server | null = null;
  let taken: string | null = null;
  let timer: NodeJS.Timeout | undefined;
  let isClosed = false;
  const bind = async () => {
    const fresh = createServer({ allowHalfOpen: true, noDelay: true }, accept);
    fresh.maxConnections = connections;
    try {
      await listen(fresh, other, Number(port), connections);
      [server, taken] = [fresh, null];
    } catch (error) {
      const isTaken = hasCode(error, 'port_in_use');
      taken = isTaken ? `${other === '::1' ? '[::1]' : other}:${port}` : null;
      if (isTaken && !isClosed) timer = setTimeout(bindAgain, again_ms).unref();
    }
  };
  let binding = bind();
  const bindAgain = () => {
    binding = bind();
  };
  await binding;
  return {
    get taken() {
      return taken;
    },
    close: async () => {
      isClosed = true;
      clearTimeout(timer);
      await binding;
      await new Promise<void>((resolve) =>
        server === null ? resolve() : server.close(() => resolve()),
      );
    },
  };
}

const NOTHING_BESIDE: OtherLoopback = { taken: null, close: () => Promise.resolve() };
