import type { Paths } from '../../../home/paths.ts';
import type { CallOptions, ControlClient } from '../../../transport/control/client.ts';
import type { Method, Results } from '../../../transport/control/protocol.ts';
import { connectDaemon } from './connect-daemon.ts';

/** Sends one request to the daemon over a new connection. Throws daemon_not_running. */
export async function askDaemon<M extends Method>(
  paths: Paths,
  method: M,
  params: Record<string, unknown> = {},
  options: CallOptions = {},
): Promise<Results[M]> {
  return withDaemon(paths, (client) => client.call(method, params, options));
}

/** Connects, calls `use`, and always closes the connection. */
export async function withDaemon<T>(
  paths: Paths,
  use: (client: ControlClient) => Promise<T>,
): Promise<T> {
  const client = await connectDaemon(paths);
  try {
    return await use(client);
  } finally {
    client.close();
  }
}
