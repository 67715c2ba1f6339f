import { loadConfig } from '../../../config/config.ts';
import type { Paths } from '../../../home/paths.ts';
import type { Method, Params } from '../../../transport/control/protocol.ts';
import type { HomeClient } from '../connect/home.ts';
import {
  addProvider,
  changeProvider,
  configuredProviders,
  configuredServers,
  removeProvider,
  useProvider,
} from './configured.ts';
import { withoutDaemon } from './database.ts';
import type { StoredLog, StoredRecords } from './stored-log.ts';

/** The files of a home. The first operation that reads the log opens it. */
interface Files {
  paths: Paths;
  runs(): Promise<StoredRecords>;
  log(): Promise<StoredLog>;
}

/**
 * How each operation works without a daemon: by the files of the configuration, for the next start,
 * or by the log. Null: only a running daemon has something to do. Other operations need a daemon.
 */
const operations = {
  'config.apply': () => null,
  'mcp.allow': () => null,
  'mcp.list': ({ paths }) => configuredServers(paths),
  'mcp.stop': () => null,
  'mcp.test': () => null,
  'provider.add': ({ paths }, { id, ...settings }) => addProvider(paths, id, settings),
  'provider.key': () => null,
  'provider.list': ({ paths }) => ({ providers: configuredProviders(paths) }),
  'provider.remove': ({ paths }, { id }) => removeProvider(paths, id),
  'provider.set': ({ paths }, { id, ...change }) => changeProvider(paths, id, change),
  'provider.use': ({ paths }, { id }) => useProvider(paths, id),
  'conversation.usage': async ({ runs }, { id }) => (await runs()).conversationUsage(id),
  'run.get': async ({ runs }, { id }) => (await runs()).get(id),
  'run.list': async ({ runs }, query) => (await runs()).list(query),
  'run.search': async ({ runs }, query) => (await runs()).search(query),
  usage: async ({ runs, paths }, query) => (await runs()).usage(query, loadConfig(paths.config)),
  'run.find': async ({ log }, { id }) => ({ id: await (await log()).findRun(id) }),
  'log.read': async ({ log }, { from_seq, limit }) => ({
    events: await (await log()).readAll(from_seq, limit),
  }),
  'log.stream': async ({ log }, { stream, from_version, limit }) => ({
    events: await (await log()).readStream(stream, from_version, limit),
  }),
  status: async ({ log }) => ({ seq: (await log()).last_seq }),
  report: async ({ log }) => ({ log: { verified: { problems: await (await log()).problems() } } }),
} satisfies { [M in Method]?: (files: Files, params: Params<M>) => unknown };

export type Offline = typeof operations;

/** Calls `use` with a client of the files, and closes what it has opened. */
export async function withFiles<T>(
  paths: Paths,
  use: (client: HomeClient) => Promise<T>,
): Promise<T> {
  const stored = () => import('./stored-log.ts');
  const open: { runs?: Promise<StoredRecords>; log?: Promise<StoredLog> } = {};
  const files: Files = {
    paths,
    runs: () => (open.runs ??= stored().then(({ openRuns }) => openRuns(paths))),
    log: () => (open.log ??= stored().then(({ openLog }) => openLog(paths))),
  };
  const call = async (method: keyof Offline, params: object = {}) =>
    operations[method](files, params as never);
  try {
    return await withoutDaemon(() => use({ call: call as HomeClient['call'] }));
  } finally {
    for (const one of [open.runs, open.log]) await (await one?.catch(() => null))?.close();
  }
}
