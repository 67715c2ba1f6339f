import { createHash } from 'node:crypto';
import {
  copyFileSync,
  createReadStream,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { create } from 'tar';
import { bytes } from '../../src/cli/terminal/print/format.ts';
import { command, has, sayFailures } from './command.ts';
import { writeBom, writeLicences } from './licences.ts';
import { writeManifests } from './manifests.ts';
import { PLATFORMS } from './platforms.ts';
import { filesBelow, setModes, stage } from './stage.ts';
import { makeSystemPackages } from './system.ts';

const USAGE = `npm run package -- [options]

  --platform P   ${Object.keys(PLATFORMS).join(', ')}; all of them without it
  --out FOLDER   where the archives go; dist/package without it

It builds the program, and makes an archive of it for each platform. With nfpm in the PATH it also
makes the packages for Debian and Red Hat. The same commit makes the same bytes.

With the next three options it also makes the manifests of Homebrew and winget, with the digests of the
archives in SHA256SUMS. No archive for Windows: no manifest of winget.

  --base-url URL    where the files are published
  --homepage URL    the page of the project
  --publisher NAME  who publishes them`;

const { values } = parseArgs({
  options: {
    platform: { type: 'string', multiple: true, default: Object.keys(PLATFORMS) },
    out: { type: 'string', default: 'dist/package' },
    'base-url': { type: 'string' },
    homepage: { type: 'string' },
    publisher: { type: 'string' },
    help: { type: 'boolean', short: 'h' },
  },
});
if (values.help || values.platform.some((name) => PLATFORMS[name] === undefined)) {
  console[values.help ? 'log' : 'error'](USAGE);
  process.exit(values.help ? 0 : 2);
}

sayFailures();
console.log('building the program …');
command(process.execPath, ['tools/build.mjs']);
const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
/** The time of each file in the archives: that of the commit. */
const epoch_s = Number(
  process.env.SOURCE_DATE_EPOCH ?? command('git', ['log', '-1', '--format=%ct']).trim(),
);
const out = resolve(values.out);
mkdirSync(out, { recursive: true });
const hasNfpm = has('nfpm');
if (!hasNfpm)
  console.log('There is no nfpm in the PATH: no package for Debian or Red Hat is made.');
/** Digests by file. */
const sums = new Map<string, string>();
for (const name of values.platform)
  for (const file of await pack(name)) {
    console.log(`${file}  ${bytes(statSync(file).size)}`);
    sums.set(basename(file), await sha256(file));
  }
writeFileSync(
  join(out, 'SHA256SUMS'),
  [...sums].map(([name, sum]) => `${sum}  ${name}\n`).join(''),
);
const { 'base-url': baseUrl, homepage, publisher } = values;
if (baseUrl !== undefined && homepage !== undefined && publisher !== undefined)
  for (const file of writeManifests(out, { version, baseUrl, homepage, publisher, sums }))
    console.log(file);

/** Makes the archive and the packages of a platform. Resolves with their files. */
async function pack(name: string): Promise<string[]> {
  const platform = PLATFORMS[name];
  if (platform === undefined) throw new Error(name);
  const scratch = mkdtempSync(join(tmpdir(), 'svc-package-'));
  const folder = `svc-${version}-${name}`;
  const root = join(scratch, folder);
  try {
    console.log(`${name}: installing its packages and Node.js …`);
    await stage({ platform, root, scratch });
    console.log(`${name}: writing licences and the list of its parts …`);
    writeLicences(root);
    const bom = join(out, `${folder}.cdx.json`);
    copyFileSync(writeBom(root, platform, epoch_s), bom);
    setModes(root);
    const file = join(out, `${folder}.tar.gz`);
    const files = filesBelow(root);
    const unpacked = files.reduce((sum, path) => sum + statSync(join(root, path)).size, 0);
    console.log(`${name}: packing ${files.length} files, ${bytes(unpacked)} …`);
    await create(
      { file, cwd: scratch, gzip: { level: 9 }, portable: true, mtime: new Date(epoch_s * 1000) },
      files.map((path) => `${folder}/${path}`),
    );
    const options = { platform, root, scratch, version, epoch_s, out };
    return [file, bom, ...(hasNfpm ? makeSystemPackages(options) : [])];
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

async function sha256(file: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const part of createReadStream(file)) hash.update(part);
  return hash.digest('hex');
}
