import type { Paths } from '../../../home/paths.ts';
import type { CallOptions } from '../../../transport/control/client.ts';
import type { Method, Results } from '../../../transport/control/protocol.ts';
import type { Offline } from '../offline/offline.ts';
import { note } from '../print/output.ts';
import { withDaemon } from './ask-daemon.ts';
import { whenNotRunning } from './not-running.ts';

/** Files may answer less than a daemon: a provider has no time since when. */
type Answer<M extends Method, Files> = Results[M] extends Files ? Files : Results[M] | Files;
type Answers = { [M in keyof Offline]: Answer<M, Awaited<ReturnType<Offline[M]>>> };

/** A client of the daemon, or of the files of its home. */
export interface HomeClient {
  call<M extends keyof Offline>(
    method: M,
    params?: Record<string, unknown>,
    options?: CallOptions,
  ): Promise<Answers[M]>;
}

/**
 * Calls `use` with a client of the daemon. Without a daemon it calls it with one of the files:
 * `offline/offline.ts` says what they answer. One that dies before its first answer does not count.
 */
export function withHome<T>(
  paths: Paths,
  use: (client: HomeClient, isRunning: boolean) => Promise<T>,
): Promise<T> {
  return withDaemon(paths, (daemon) => use(daemon as HomeClient, true)).catch(
    whenNotRunning(async () => {
      // A quick command leaves this code to the whole program.
      const { withFiles } = await import('../offline/offline.ts');
      return withFiles(paths, (files) => use(files, false));
    }),
  );
}

/** Sends one request. */
export function askHome<M extends keyof Offline>(
  paths: Paths,
  method: M,
  params: Record<string, unknown> = {},
  options: CallOptions = {},
): Promise<{ answer: Answers[M]; isRunning: boolean }> {
  return withHome(paths, async (client, isRunning) => {
    return { answer: await client.call(method, params, options), isRunning };
  });
}

/** As `withHome`. A note says when the runs are those of the log. */
export function withRuns<T>(paths: Paths, use: (client: HomeClient) => Promise<T>): Promise<T> {
  return withHome(paths, async (client, isRunning) => {
    const result = await use(client);
    if (!isRunning) note('The daemon is not running. This is from its log.');
    return result;
  });
}
