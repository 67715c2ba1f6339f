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
  const logs = joinName(state, 'logs');
  return {
    home: env.SVC_HOME ? config : data,
    config: joinName(config, 'config.json'),
    data,
    database: joinName(data, 'events.db'),
    lock: joinName(data, 'lock'),
    upgrade: joinName(data, 'upgrade'),
    highWater: joinName(data, 'events.high-water'),
    token: joinName(data, 'token'),
    tokens: joinName(data, 'tokens.json'),
    keys: joinName(data, 'keys'),
    secret: joinName(data, 'secret'),
    sessions: joinName(data, 'sessions.json'),
    signIn: joinName(data, 'sign-in'),
    node: joinName(data, 'node.json'),
    models: joinName(data, 'models'),
    adapters: joinName(data, 'adapters'),
    runtime: joinName(state, 'runtime.json'),
    logs,
    stderr: joinName(logs, 'stderr.txt'),
    cache,
    socket: platform.socket(joinName(state, 'svc.sock')),
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
  return { config: own, data: joinName(own, 'data'), state: own, cache: joinName(own, 'cache') };
}

/** A name in a normalised folder. `join` reads each path again: 2 ms of a short command. */
function joinName(folder: string, name: string): string {
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
