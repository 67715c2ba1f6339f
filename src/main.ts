#!/usr/bin/env node
/** The bin. It has no imports, and no syntax that an old Node cannot read: it has to be able to say that it is too old. */

// Without a listener of ours, SIGUSR1 makes Node open a debugger on a port that every user of the machine can reach.
process.on('SIGUSR1', () => {});

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);

if (major < 22 || (major === 22 && minor < 13)) {
  console.error(
    `error: svc needs Node.js 22.13 or later; this is ${process.versions.node} (node_too_old)`,
  );
  process.exitCode = 1;
} else {
  const folder = cacheFolder();
  if (folder !== null) process.getBuiltinModule('node:module').enableCompileCache(folder);
  const quick = ['version', 'status', 'health'].includes(String(process.argv[2]));
  (quick ? import('./cli/quick.ts') : import('./cli/loaders.ts')).then(
    ({ main }) => main(process.argv.slice(2)),
    (error) => {
      console.error(`error: svc is not installed whole, so it cannot start (${error.code})`);
      process.exitCode = 1;
    },
  );
}

/**
 * Where compiled code is kept from one command to the next. Whoever can write there can have their code run by us, so it is a
 * folder of the user alone; null where there is none. On Windows the folder that Node chooses is one.
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
