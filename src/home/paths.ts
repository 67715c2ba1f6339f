import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SvcError } from '../errors.ts';
import { type Folders, platform } from './platform.ts';

// Importing node:fs, node:os or node:crypto builds all their exports, too slow for a short
// command.
const { existsSync } = process.getBuiltinModule('node:fs');

/** Where everything is: under `SVC_HOME`, or else in the platform's own folders. */
export interface Paths {
  /** The folder that messages name. */
  home: string;
  config: string;
  /** Event log, high-water mark, secrets. */
  data: string;
  database: string;
  /** Its lock makes one process the owner of the home. */
  lock: string;
  /** Its lock keeps a new daemon waiting while an upgrade compares the records of the old one. */
  upgrade: string;
  highWater: string;
  token: string;
  /** Names, scopes and hashes of the tokens of programs. */
  tokens: string;
  /** Stored keys of providers. */
  keys: string;
  /** Secret for digests. It never leaves the daemon. */
  secret: string;
  /** Live sessions of the console. */
  sessions: string;
  /** Pages that sign a browser in. Each lives a minute at most. */
  signIn: string;
  /** The name of this home in its fleet, if the log is shared. */
  node: string;
  models: string;
  /** Packages of adapters that the user installed. */
  adapters: string;
  /** The runtime file: which process runs, and where it listens. */
  runtime: string;
  logs: string;
  /** Output of a process that cannot log: crashes of native code, errors before the log is open. */
  stderr: string;
  cache: string;
  socket: string;
}

/**
 * Throws if a path needs the user's folder or the working directory, and the system has none; and
 * home_unusable for a path that is not one line of UTF-8 text: files of a service, messages and
 * scripts name it.
 */
export function findPaths(env: NodeJS.ProcessEnv = process.env): Paths {
  const { config, data, state, cache } = findFolders(env);
  for (const folder of [config, data, state, cache])
    for (const [pattern, what, hint] of UNUSABLE)
      if (pattern.test(folder))
        throw new SvcError('home_unusable', `The folder ${JSON.stringify(folder)} ${what}.`, {
          hint,
        });
  const logs = within(state, 'logs');
  return {
    home: env.SVC_HOME ? config : data,
    config: within(config, 'config.json'),
    data,
    database: within(data, 'events.db'),
    lock: within(data, 'lock'),
    upgrade: within(data, 'upgrade'),
    highWater: within(data, 'events.high-water'),
    token: within(data, 'token'),
    tokens: within(data, 'tokens.json'),
    keys: within(data, 'keys'),
    secret: within(data, 'secret'),
    sessions: within(data, 'sessions.json'),
    signIn: within(data, 'sign-in'),
    node: within(data, 'node.json'),
    models: within(data, 'models'),
    adapters: within(data, 'adapters'),
    runtime: within(state, 'runtime.json'),
    logs,
    stderr: within(logs, 'stderr.txt'),
    cache,
    socket: platform.socket(within(state, 'svc.sock')),
  };
}

/** Node reads bytes that are no UTF-8 as U+FFFD, which is the name of another folder. */
const UNUSABLE: readonly (readonly [RegExp, string, string])[] = [
  [
    /\p{Cc}/u,
    'has a control character in its name',
    'Set SVC_HOME, HOME and XDG_* to folders without line breaks and the like.',
  ],
  [
    /\uFFFD/u,
    'has bytes in its name that are not UTF-8',
    'Set SVC_HOME, HOME and XDG_* to folders with a name in UTF-8.',
  ],
];

/** Four folders, which may be one. */
function findFolders(env: NodeJS.ProcessEnv): Folders {
  if (!env.SVC_HOME) return platform.folders(env);
  const own = platform.path.resolve(env.SVC_HOME);
  return { config: own, data: within(own, 'data'), state: own, cache: within(own, 'cache') };
}

/** A name in a normalised folder. `join` reads each path again: 2 ms of a short command. */
function within(folder: string, name: string): string {
  const { sep } = platform.path;
  return folder.endsWith(sep) ? folder + name : folder + sep + name;
}

/** The folder of package.json, from the sources and from the build. */
export function packageRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, 'package.json'))) {
    const up = dirname(folder);
    if (up === folder) throw new Error('package.json not found above the program');
    folder = up;
  }
  return folder;
}
