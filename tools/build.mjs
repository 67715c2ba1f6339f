// Builds the program into dist/: compiles, copies what is not TypeScript, bundles the quick commands.
// `npm run build` runs it, with the Node that `npm install` puts into node_modules.
import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, globSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buildSync } from 'esbuild';

const MAIN = 'dist/src/main.js';

rmSync('dist', { recursive: true, force: true });
compile();
for (const file of globSync('src/**/*.{proto,html,css,svg,js}')) cpSync(file, join('dist', file));
bundle('dist/src/cli/quick.js');
chmodSync(MAIN, 0o755);
link('node_modules/.bin/svc');

function compile() {
  const tsc = ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json'];
  const { status } = spawnSync(process.execPath, tsc, { stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}

/** One file instead of twenty: see docs/decisions/0014-quick-commands-are-bundled.md. */
function bundle(file) {
  buildSync({
    entryPoints: [file],
    outfile: file,
    allowOverwrite: true,
    bundle: true,
    format: 'esm',
    platform: 'node',
    external: ['@grpc/grpc-js'],
    logLevel: 'warning',
  });
}

/** npm links the programs of dependencies only. `npx svc` in the checkout needs this link. */
function link(bin) {
  rmSync(bin, { force: true });
  if (process.platform !== 'win32') symlinkSync(join('../..', MAIN), bin);
  else writeFileSync(`${bin}.cmd`, '@node "%~dp0..\\..\\dist\\src\\main.js" %*');
}
