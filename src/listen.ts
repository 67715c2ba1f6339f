import type { AddressInfo, Server } from 'node:net';
import { SvcError } from './errors.ts';

/** Binds a listener and resolves with its address as `host:port`. Throws port_in_use, address_refused. */
export async function listen(server: Server, host: string, port: number): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    const refused = (error: NodeJS.ErrnoException) => reject(bindError(error, host, port));
    server.once('error', refused);
    server.once('listening', () => {
      server.off('error', refused);
      resolve();
    });
    server.listen({ host, port });
  });
  const { address, family, port: bound } = server.address() as AddressInfo;
  return family === 'IPv6' ? `[${address}]:${bound}` : `${address}:${bound}`;
}

function bindError(error: NodeJS.ErrnoException, host: string, port: number): SvcError {
  const address = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
  if (error.code === 'EADDRINUSE') return new SvcError('port_in_use', `Another program listens on ${address}.`, { cause: error });
  return new SvcError('address_refused', `The address ${address} cannot be bound (${error.code ?? 'unknown'}).`, { cause: error });
}
