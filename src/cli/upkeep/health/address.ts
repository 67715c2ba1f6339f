import { SvcError } from '../../../errors.ts';
import type { Paths } from '../../../home/paths.ts';
import { ownerOf, readRuntimeFile } from '../../../home/runtime-file.ts';
import { findSocket } from '../../terminal/connect/connect-daemon.ts';

/**
 * The address of a transport, from the runtime file, or from the socket if the file is unreadable.
 * The address of a dead daemon is not used: another program may listen there now.
 */
export async function findAddress(paths: Paths, name: 'http' | 'grpc' | 'socket'): Promise<string> {
  if (name === 'socket') return findSocket(paths);
  const found = readRuntimeFile(paths.runtime);
  if (found.kind === 'present' && ['gone', 'other'].includes(ownerOf(found.file)))
    throw new SvcError('daemon_not_running', 'The daemon died without a clean stop.', {
      hint: 'See how: svc doctor. Start it again with: svc start',
    });
  const addresses = found.kind === 'present' ? found.file.addresses : await askSocket(paths);
  const address = addresses[name];
  if (address === null)
    throw new SvcError('daemon_not_running', `The daemon does not listen on ${name}.`, {
      hint: 'See: svc status',
    });
  // Both listeners have the same certificate. gRPC clients want an address without a scheme.
  const isSecure = name === 'grpc' && addresses.http?.startsWith('https:') === true;
  return isSecure ? `grpcs://${address}` : address;
}

async function askSocket(paths: Paths): Promise<{ http: string | null; grpc: string | null }> {
  const { askDaemon } = await import('../../terminal/connect/ask-daemon.ts');
  return (await askDaemon(paths, 'status')).addresses;
}
