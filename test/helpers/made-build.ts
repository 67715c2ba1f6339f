import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  cpSync,
  mkdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../src/home/paths.ts';

export interface MadeBuild {
  version: string;
  /** Each changes a file of the sources: its path, a text in it, and what takes its place. */
  changes?: readonly (readonly [file: string, text: string, other: string])[];
}

/**
 * Makes an archive of these sources, with the scripts of a real one. Its Node.js and its packages
 * are links to those of the checkout. SHA256SUMS beside it names it.
 */
export function makeBuild(folder: string, { version, changes = [] }: MadeBuild): string {
  const root = packageRoot();
  const name = `svc-${version}-${process.platform}-${process.arch}`;
  const build = join(folder, name);
  const program = join(build, 'lib', 'svc');
  mkdirSync(join(build, 'bin'), { recursive: true });
  for (const part of ['src', 'machines'])
    cpSync(join(root, part), join(program, part), { recursive: true });
  for (const [file, text, other] of changes) {
    const code = readFileSync(join(program, file), 'utf8');
    if (!code.includes(text)) throw new Error(`${file} has no ${text}`);
    writeFileSync(
      join(program, file),
      code.replace(text, () => other),
    );
  }
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as object;
  writeFileSync(join(program, 'package.json'), JSON.stringify({ ...manifest, version }));
  writeFileSync(join(program, 'installed'), 'archive\n');
  mkdirSync(join(program, 'dist', 'src'), { recursive: true });
  writeFileSync(join(program, 'dist', 'src', 'main.js'), "import '../../src/main.ts';\n");
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
