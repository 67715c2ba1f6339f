#!/usr/bin/env node
/**
 * The bin. An old Node must be able to say that it is too old. So this file has no imports and
 * only syntax that an old Node can parse.
 */

// Without a listener, SIGUSR1 makes Node open a debugger port to every user of the machine.
process.on('SIGUSR1', () => {});

/** The build gives both. Without a build, each command is one of the whole program. */
declare const BUILD: string;
declare const QUICK: readonly string[] | undefined;

/** False: the whole program has to read the command line. */
type Main = (argv: string[]) => Promise<unknown>;

/**
 * The first minor version of a line that has Node-API 10. An older one ends with SIGSEGV, without a
 * word, when the SQLite addon is loaded.
 */
const FIRST: Readonly<Record<number, number>> = { 22: 14, 23: 6 };
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);

if (major < 22 || minor < (FIRST[major] || 0)) {
  console.error(
    'error: svc needs Node.js 22.14 or later, and 23.6 of line 23; ' +
      `this is ${process.versions.node} (node_too_old)\n` +
      'hint: Install Node.js 24, or run svc through npx in a checkout: that uses its own Node.js.',
  );
  process.exitCode = 1;
} else {
  const folder = cacheFolder();
  const argv = process.argv.slice(2);
  const isVersion = argv[0] === '--version' || argv[0] === '-v';
  const isHelp = argv.includes('--help') || argv.includes('-h');
  const words = argv.filter((word) => word[0] !== '-');
  const [first, second] = isHelp ? ['help'] : isVersion ? ['version'] : words;
  const quick =
    typeof QUICK === 'undefined'
      ? undefined
      : [`${first} ${second}`, `${first}`].find((name) => QUICK.includes(name));
  const isRead =
    quick === undefined ? Promise.resolve(false) : start(async () => readQuick(quick, folder));
  void isRead.then((done) => done === false && start(() => loadWhole(folder)));
}

function start(load: () => Promise<Main>): Promise<unknown> {
  return load().then(
    (main) => main(process.argv.slice(2)),
    (error) => {
      console.error(`error: the svc installation is incomplete (${error.code})`);
      process.exitCode = 1;
    },
  );
}

function loadWhole(folder: string | null | undefined): Promise<Main> {
  if (folder !== null) process.getBuiltinModule('node:module').enableCompileCache(folder);
  return import('./cli/program.ts').then(({ main }) => main);
}

/**
 * The code of a quick command, with the compiled code of an earlier run. The cache of Node has only
 * the outermost code of a file, so each run would compile all its functions.
 */
function readQuick(name: string, folder: string | null | undefined): Main {
  const { readFileSync } = process.getBuiltinModule('node:fs');
  const vm = process.getBuiltinModule('node:vm');
  const file = `${import.meta.dirname}/cli/quick/${name.replace(' ', '-')}.js`;
  const kept = folder ? `${folder}/${BUILD}-${name}-${process.version}-${process.arch}` : null;
  const script = new vm.Script(readFileSync(file, 'latin1'), {
    filename: file,
    cachedData: kept === null ? undefined : readTwice(kept),
  });
  const load = (id: string) => {
    const { createRequire, enableCompileCache } = process.getBuiltinModule('node:module');
    if (folder !== null) enableCompileCache(folder);
    return createRequire(import.meta.url)(id);
  };
  const keepCode = () => {
    if (kept !== null && script.cachedDataRejected !== false)
      writeTwice(kept, script.createCachedData());
  };
  const main = script.runInThisContext()(
    import.meta.url,
    load,
    (id: string) => import(id),
    (id: string) => import.meta.resolve(id),
  );
  return (argv) => main(argv, keepCode);
}

/** V8 does not verify its code, and damaged code ends the process: the file has it twice. */
function readTwice(path: string): Buffer | undefined {
  try {
    const both = process.getBuiltinModule('node:fs').readFileSync(path);
    const one = both.subarray(0, both.length / 2);
    return one.equals(both.subarray(both.length / 2)) ? one : undefined;
  } catch (_) {
    return undefined;
  }
}

/** Best effort: the cache only saves time, so a failure to write it is not an error. */
function writeTwice(path: string, code: Buffer): void {
  const { mkdirSync, renameSync, writeFileSync } = process.getBuiltinModule('node:fs');
  const part = `${path}.${process.pid}`;
  try {
    mkdirSync(path.slice(0, path.lastIndexOf('/')), { recursive: true, mode: 0o700 });
    writeFileSync(part, Buffer.concat([code, code]), { mode: 0o600 });
    renameSync(part, path);
  } catch (_) {}
}

/**
 * The folder of the compile cache, null for no cache. A user who can write there can have code run
 * by us, so only the user has access to it. On Windows, Node's default folder is private already.
 */
function cacheFolder(): string | undefined | null {
  if (process.getuid === undefined) return undefined;
  const { lstatSync, mkdirSync } = process.getBuiltinModule('node:fs');
  const uid = process.getuid();
  const folder = `${process.env.TMPDIR || '/tmp'}/svc-${uid}`;
  try {
    const found = lstatSync(folder, { throwIfNoEntry: false });
    if (found === undefined) mkdirSync(folder, { mode: 0o700 });
    return found === undefined ||
      (found.isDirectory() && found.uid === uid && (found.mode & 0o077) === 0)
      ? `${folder}/code`
      : null;
  } catch (_) {
    return null;
  }
}
