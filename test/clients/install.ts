import { spawn } from 'node:child_process';
import { copyFileSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, delimiter, dirname, join, resolve } from 'node:path';
import type { Client } from './table.ts';

/** How one client is started. */
export interface Installed {
  command: readonly string[];
  folder: string;
  env: Readonly<Record<string, string>>;
}

const SCRIPTS = resolve(import.meta.dirname, 'scripts');
/** Long enough to compile a program of Go on two busy cores. */
const INSTALL_MS = 1_200_000;

/** Installs the client in its own folder of the cache. Null: the checkout it needs is absent. */
export async function install(
  client: Client,
  cache: string,
  checkouts: Readonly<Record<string, string>>,
): Promise<Installed | null> {
  const { from, name, packages, script, args = [] } = client;
  const folder = join(cache, name);
  mkdirSync(folder, { recursive: true });
  // Scripts import each client from where it is installed, and what they share from beside them.
  for (const file of readdirSync(SCRIPTS)) copyFileSync(join(SCRIPTS, file), join(folder, file));
  const started = (command: string, env = {}): Installed => ({
    command: [command, join(folder, script), ...args],
    folder,
    env,
  });
  const addPackages = async (names: readonly string[]) => {
    writeFileSync(join(folder, 'package.json'), '{ "private": true }');
    const flags = ['--no-audit', '--no-fund', '--no-save', '--loglevel=error'];
    await finished('npm', ['install', ...flags, ...names], folder);
  };
  if (from === 'npm') {
    await addPackages(packages);
    return started(process.execPath);
  }
  if (from === 'pypi') {
    const python = join(folder, 'venv', 'bin', 'python');
    await finished('python3', ['-m', 'venv', 'venv'], folder);
    await finished(python, ['-m', 'pip', 'install', '-q', ...packages], folder);
    if (script.endsWith('.mjs'))
      return started(process.execPath, { PATH: `${dirname(python)}:${process.env.PATH}` });
    return started(python);
  }
  if (from === 'go') {
    const [target = ''] = packages;
    if (!script.endsWith('.go')) {
      await finished('go', ['install', target], folder, { GOBIN: folder });
      return started(process.execPath, { PATH: `${folder}:${process.env.PATH}` });
    }
    writeFileSync(join(folder, 'go.mod'), `module clients\n\ngo 1.24\n`);
    await finished('go', ['get', ...packages], folder);
    await finished('go', ['build', '-o', 'client', script, 'cases.go'], folder);
    return { command: [join(folder, 'client'), ...args], folder, env: {} };
  }
  if (from === 'crates') {
    writeFileSync(join(folder, 'Cargo.toml'), manifestOf(packages, script));
    // Clients share what both need.
    const target = join(cache, 'crates');
    await finished('cargo', ['build', '-q'], folder, { CARGO_TARGET_DIR: target });
    return { command: [join(target, 'debug', basename(script, '.rs')), ...args], folder, env: {} };
  }
  if (from === 'maven') {
    writeFileSync(join(folder, 'pom.xml'), pomOf(packages));
    // Jars of other versions would be on the class path too.
    rmSync(join(folder, 'jars'), { recursive: true, force: true });
    const copy = ['dependency:copy-dependencies', '-DoutputDirectory=jars'];
    await finished('mvn', ['-q', '-B', '--no-transfer-progress', ...copy], folder);
    const path = ['-cp', `.${delimiter}jars/*`];
    await finished('javac', ['-d', '.', ...path, 'Cases.java', script], folder);
    return { command: ['java', ...path, basename(script, '.java'), ...args], folder, env: {} };
  }
  const checkout = checkouts[folderOf(client)];
  if (checkout === undefined) return null;
  if (packages.length > 1) await addPackages(packages.slice(1));
  return started(process.execPath, { CHECKOUT: resolve(checkout) });
}

function pomOf(packages: readonly string[]): string {
  const dependencies = packages.map((each) => {
    const [group = '', artifact = '', version = ''] = each.split(':');
    const names = `<groupId>${group}</groupId><artifactId>${artifact}</artifactId>`;
    return `<dependency>${names}<version>${version}</version></dependency>`;
  });
  return `<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>clients</groupId><artifactId>client</artifactId><version>1</version>
<dependencies>${dependencies.join('')}</dependencies></project>
`;
}

/** A package is `name@version`, with the features it needs after a plus. */
function manifestOf(packages: readonly string[], script: string): string {
  const lines = packages.map((each) => {
    const [, name, version, features] = /^([^@]+)@([^+]+)\+?(.*)$/.exec(each) ?? [];
    const list = JSON.stringify(features === '' ? [] : features?.split('+'));
    return `${name} = { version = "=${version}", features = ${list} }`;
  });
  return `[package]
name = "${basename(script, '.rs')}"
version = "0.0.0"
edition = "2024"

[[bin]]
name = "${basename(script, '.rs')}"
path = "${script}"

[dependencies]
${lines.join('\n')}
`;
}

/** The name of the checkout that a client needs. */
export function folderOf({ packages: [first = ''] }: Client): string {
  return first.slice(first.lastIndexOf('/') + 1);
}

/** Runs a command of an installation. Throws its last words. */
async function finished(
  command: string,
  args: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>> = {},
): Promise<void> {
  const { code, printed } = await runBounded([command, ...args], {
    cwd,
    env,
    bound_ms: INSTALL_MS,
  });
  if (code !== 0) throw new Error(`${command} ${args.join(' ')}: ${printed.slice(-600).trim()}`);
}

export interface Bounded {
  cwd: string;
  env: Readonly<Record<string, string>>;
  bound_ms: number;
}

/** Runs a command to its end, or to its bound. Its whole group ends with it. */
export function runBounded(
  [command = '', ...args]: readonly string[],
  { cwd, env, bound_ms }: Bounded,
): Promise<{ code: number | null; printed: string }> {
  return new Promise((settle, reject) => {
    const child = spawn(command, args, {
      cwd,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    const end = () => child.pid !== undefined && process.kill(-child.pid, 'SIGKILL');
    const timer = setTimeout(end, bound_ms);
    let printed = '';
    for (const source of [child.stdout, child.stderr])
      source.setEncoding('utf8').on('data', (text: string) => {
        printed = (printed + text).slice(-PRINTED_MAX);
      });
    child.once('error', reject);
    child.once('close', (code) => {
      clearTimeout(timer);
      settle({ code, printed });
    });
  });
}

const PRINTED_MAX = 4 * 1024 * 1024;
