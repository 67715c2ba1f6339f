import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  cpSync,
  globSync,
  mkdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../src/home/paths.ts';

export interface MadeBuild {
  version: string;
  /** Each changes the built code, minified or not: what is in it, and what takes its place. */
  changes?: readonly (readonly [code: RegExp, other: string])[];
}

/**
 * Makes an archive of the built program, with the scripts of a real one. Its Node.js and its
 * packages are links to those of the checkout. SHA256SUMS beside it names it.
 */
export function makeBuild(folder: string, { version, changes = [] }: MadeBuild): string {
  const root = packageRoot();
  const name = `svc-${version}-${process.platform}-${process.arch}`;
  const build = join(folder, name);
  const program = join(build, 'lib', 'svc');
  mkdirSync(join(build, 'bin'), { recursive: true });
  cpSync(join(root, 'dist'), join(program, 'dist'), {
    recursive: true,
    filter: (path) => !path.endsWith('.map'),
  });
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    version: string;
  };
  changeCode(program, [
    [new RegExp(`"${manifest.version.replaceAll('.', '\\.')}"`, 'g'), `"${version}"`],
    [new RegExp(buildOf(program), 'g'), version.padEnd(12, '0')],
    ...changes,
  ]);
  writeFileSync(join(program, 'package.json'), JSON.stringify({ ...manifest, version }));
  writeFileSync(join(program, 'installed'), 'archive\n');
  symlinkSync(join(root, 'node_modules'), join(program, 'node_modules'));
  symlinkSync(process.execPath, join(build, 'lib', 'node'));
  for (const [from, to] of [
    ['svc', 'bin/svc'],
    ['install.sh', 'install.sh'],
  ] as const) {
    copyFileSync(join(root, 'tools', 'package', 'files', from), join(build, to));
    chmodSync(join(build, to), 0o755);
  }
  const archive = `${build}.tar.gz`;
  execFileSync('tar', ['-czf', archive, '-C', folder, name]);
  const digest = createHash('sha256').update(readFileSync(archive)).digest('hex');
  writeFileSync(join(folder, 'SHA256SUMS'), `${digest}  ${name}.tar.gz\n`, { flag: 'a' });
  return archive;
}

/** The identity of the built program, by which it keeps compiled code apart. */
function buildOf(program: string): string {
  const code = readFileSync(join(program, 'dist', 'src', 'main.js'), 'utf8');
  const [, build] = /"([0-9a-f]{12})"/.exec(code) ?? [];
  if (build === undefined) throw new Error('main.js names no build');
  return build;
}

function changeCode(program: string, changes: NonNullable<MadeBuild['changes']>): void {
  const missing = new Set(changes.map(([code]) => code));
  for (const file of globSync(join(program, 'dist/**/*.js'))) {
    const before = readFileSync(file, 'utf8');
    let after = before;
    for (const [code, other] of changes) {
      if (after.search(code) >= 0) missing.delete(code);
      after = after.replace(code, other);
    }
    if (after !== before) writeFileSync(file, after);
  }
  if (missing.size > 0) throw new Error(`The built code has no ${[...missing].join(', ')}`);
}
