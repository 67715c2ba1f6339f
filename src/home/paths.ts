import { dirname, isAbsolute, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

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

/** The longest path of a Unix socket on all our platforms. */
const SOCKET_PATH_MAX = 103;

/** Throws if a path needs the user's folder or the working directory, and the system has none. */
export function findPaths(env: NodeJS.ProcessEnv = process.env): Paths {
  const own = env.SVC_HOME;
  const user = own || userFolder(env);
  const pick = (name: string, xdg: string | undefined, fallback: string) =>
    own
      ? join(resolve(own), name)
      : join(xdg && isAbsolute(xdg) ? xdg : join(user, fallback), 'svc');
  const mac = process.platform === 'darwin';
  const windows = process.platform === 'win32';
  const local = env.LOCALAPPDATA ?? join(user, 'AppData', 'Local');
  const support = mac ? 'Library/Application Support' : null;
  const base = windows ? join(local, 'svc') : support ? join(user, support, 'svc') : null;

  const config = own ? resolve(own) : (base ?? pick('', env.XDG_CONFIG_HOME, '.config'));
  const data = own
    ? join(resolve(own), 'data')
    : (base ?? pick('', env.XDG_DATA_HOME, '.local/share'));
  const state = own ? resolve(own) : (base ?? pick('', env.XDG_STATE_HOME, '.local/state'));
  const cache = own
    ? join(resolve(own), 'cache')
    : base
      ? join(base, 'cache')
      : pick('', env.XDG_CACHE_HOME, '.cache');
  return {
    home: own ? resolve(own) : data,
    config: join(config, 'config.json'),
    data,
    database: join(data, 'events.db'),
    highWater: join(data, 'events.high-water'),
    token: join(data, 'token'),
    tokens: join(data, 'tokens.json'),
    keys: join(data, 'keys'),
    secret: join(data, 'secret'),
    sessions: join(data, 'sessions.json'),
    signIn: join(data, 'sign-in'),
    node: join(data, 'node.json'),
    models: join(data, 'models'),
    adapters: join(data, 'adapters'),
    runtime: join(state, 'runtime.json'),
    logs: join(state, 'logs'),
    stderr: join(state, 'logs', 'stderr.txt'),
    cache,
    socket: socketPath(join(state, 'svc.sock')),
  };
}

/**
 * The daemon has another working directory than its clients, so a relative path would be two
 * places.
 */
function userFolder({ HOME }: NodeJS.ProcessEnv): string {
  if (HOME && isAbsolute(HOME)) return HOME;
  const { homedir, userInfo } = process.getBuiltinModule('node:os');
  return HOME === undefined ? homedir() : userInfo().homedir;
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

/** If the path is too long, the socket is in the temporary folder, named by a hash. */
function socketPath(wanted: string): string {
  const windows = process.platform === 'win32';
  if (!windows && Buffer.byteLength(wanted) <= SOCKET_PATH_MAX) return wanted;
  const name = process
    .getBuiltinModule('node:crypto')
    .createHash('sha256')
    .update(wanted)
    .digest('hex')
    .slice(0, 16);
  if (windows) return `\\\\.\\pipe\\svc-${name}`;
  return join(
    process.getBuiltinModule('node:os').tmpdir(),
    `svc-${process.getuid?.()}`,
    `${name}.sock`,
  );
}
