import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { extract } from 'tar';
import { command } from './command.ts';
import { isNeedless } from './needless.ts';
import type { Platform } from './platforms.ts';

export interface StageOptions {
  platform: Platform;
  /** The folder to make. */
  root: string;
  /** A folder for what is fetched and not shipped. */
  scratch: string;
}

/**
 * Makes the folder of an archive: Node.js, the program of this checkout and its packages from the
 * lock file.
 */
export async function stage({ platform, root, scratch }: StageOptions): Promise<void> {
  const program = join(root, 'lib', 'svc');
  mkdirSync(program, { recursive: true });
  for (const file of programFiles()) {
    mkdirSync(dirname(join(program, file)), { recursive: true });
    copyFileSync(file, join(program, file));
  }
  writeFileSync(join(program, 'installed'), 'archive\n');
  installPackages(program, platform);
  await addNode(root, scratch, platform);
  mkdirSync(join(root, 'bin'));
  for (const [from, to] of [
    ['svc', 'bin/svc'],
    ['install.sh', 'install.sh'],
  ] as const)
    copyFileSync(join(import.meta.dirname, 'files', from), join(root, to));
  addShare(root);
}

/** Modes of files below a folder, whatever umask and modes those who make the archive have. */
export function setModes(folder: string): void {
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    const isOpen = entry.isDirectory() || COMMANDS.has(relative(folder, path));
    chmodSync(path, isOpen ? 0o755 : 0o644);
  }
}

const COMMANDS: ReadonlySet<string> = new Set(['bin/svc', 'install.sh', 'lib/node']);

/** What `npm pack` takes: the package for npm and the archive have the same program. */
function programFiles(): string[] {
  const [packed] = JSON.parse(command('npm', ['pack', '--dry-run', '--json', '--ignore-scripts']));
  return (packed.files as { path: string }[]).map(({ path }) => path);
}

/** Installs without a script: none of the packages needs one. Then removes what is never read. */
function installPackages(program: string, platform: Platform): void {
  for (const name of ['package-lock.json', '.npmrc']) copyFileSync(name, join(program, name));
  const { os, cpu } = platform;
  const target = [`--os=${os}`, `--cpu=${cpu}`, '--libc=glibc'];
  command('npm', ['ci', '--omit=dev', '--ignore-scripts', ...target], { cwd: program });
  rmSync(join(program, '.npmrc'));
  const modules = join(program, 'node_modules');
  for (const file of filesBelow(modules))
    if (isNeedless(file, platform)) rmSync(join(modules, file));
  removeEmpty(modules);
}

/** Unpacks the program of Node.js and its licence, after a look at the digest. */
async function addNode(root: string, scratch: string, { node }: Platform): Promise<void> {
  const packed = command('npm', ['pack', node.name, '--silent', '--pack-destination', scratch]);
  const file = join(scratch, basename(packed.trim()));
  const digest = `sha512-${createHash('sha512').update(readFileSync(file)).digest('base64')}`;
  if (digest !== node.integrity)
    throw new Error(`${node.name} is not the package that platforms.ts names: ${digest}`);
  const folder = join(scratch, 'node');
  mkdirSync(folder);
  await extract({ file, cwd: folder, strip: 1 });
  renameSync(join(folder, 'bin', 'node'), join(root, 'lib', 'node'));
  renameSync(join(folder, 'LICENSE'), join(root, 'lib', 'node.LICENSE'));
}

/** The man page and the completions, at the places where shells look for them below a prefix. */
function addShare(root: string): void {
  const share = join(root, 'share');
  mkdirSync(join(share, 'man', 'man1'), { recursive: true });
  renameSync(join(root, 'lib/svc/docs/svc.1'), join(share, 'man/man1/svc.1'));
  const completions = {
    bash: 'bash-completion/completions/svc',
    zsh: 'zsh/site-functions/_svc',
    fish: 'fish/vendor_completions.d/svc.fish',
  };
  for (const [shell, file] of Object.entries(completions)) {
    mkdirSync(dirname(join(share, file)), { recursive: true });
    const script = command(process.execPath, ['dist/src/main.js', 'completion', shell]);
    writeFileSync(join(share, file), script);
  }
}

/** Paths below a folder, with `/`. A link counts as a file. */
export function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort();
}

/** Whether anything is left in the folder. */
function removeEmpty(folder: string): boolean {
  const isEmpty = readdirSync(folder, { withFileTypes: true })
    .map((entry) => entry.isDirectory() && removeEmpty(join(folder, entry.name)))
    .every(Boolean);
  if (isEmpty) rmSync(folder, { recursive: true });
  return isEmpty;
}
