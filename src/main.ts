#!/usr/bin/env node
/** The bin. It has no imports, and no syntax that an old Node cannot read: it has to be able to say that it is too old. */
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);

if (major < 22 || (major === 22 && minor < 13)) {
  console.error(`error: svc needs Node.js 22.13 or later; this is ${process.versions.node} (node_too_old)`);
  process.exitCode = 1;
} else {
  // The folder that is the default too; to have it found is to have node:os loaded, which every command would pay for.
  const temporary = process.platform === 'win32' ? undefined : process.env.TMPDIR || '/tmp';
  process.getBuiltinModule('node:module').enableCompileCache(temporary && `${temporary}/node-compile-cache`);
  const quick = ['version', 'status', 'health'].includes(String(process.argv[2]));
  (quick ? import('./cli/quick.ts') : import('./cli/loaders.ts')).then(
    ({ main }) => main(process.argv.slice(2)),
    (error) => {
      console.error(`error: svc is not installed whole, so it cannot start (${error.code})`);
      process.exitCode = 1;
    },
  );
}
