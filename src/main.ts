#!/usr/bin/env node
/**
 * The bin. An old Node must be able to say that it is too old. So this file has no imports and
 * only syntax that an old Node can parse.
 */

// Without a listener, SIGUSR1 makes Node open a debugger port to every user of the machine.
process.on('SIGUSR1', () => {});

const [MAJOR_MIN, MINOR_MIN] = [22, 13];
/** Commands that scripts call often. Each is one file of the build, with all that it needs. */
const QUICK = {
  version: () => import('./cli/quick/version.ts'),
  status: () => import('./cli/quick/status.ts'),
  health: () => import('./cli/quick/health.ts'),
  run: () => import('./cli/quick/run.ts'),
  logs: () => import('./cli/quick/logs.ts'),
};

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);

if (major < MAJOR_MIN || (major === MAJOR_MIN && minor < MINOR_MIN)) {
  console.error(
    `error: svc needs Node.js ${MAJOR_MIN}.${MINOR_MIN} or later; ` +
      `this is ${process.versions.node} (node_too_old)\n` +
      `hint: Install Node.js ${MAJOR_MIN}.${MINOR_MIN} or later, ` +
      'or run svc through npx in a checkout: that uses its own Node.js.',
  );
  process.exitCode = 1;
} else {
  const folder = cacheFolder();
  if (folder !== null) process.getBuiltinModule('node:module').enableCompileCache(folder);
  const quick = Object.entries(QUICK).find(([name]) => name === process.argv[2]);
  const isRead = quick === undefined ? Promise.resolve(false) : start(quick[1]);
  void isRead.then((done) => done === false && start(() => import('./cli/loaders.ts')));
}

/** A quick command resolves with false if the whole program has to read its command line. */
function start(load: () => Promise<{ main(argv: string[]): Promise<unknown> }>) {
  return load().then(
    ({ main }) => main(process.argv.slice(2)),
    (error) => {
      console.error(`error: the svc installation is incomplete (${error.code})`);
      process.exitCode = 1;
    },
  );
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
