import { existsSync, globSync, readFileSync } from 'node:fs';

/**
 * Which package may import which, lowest first. A request goes from a listener to the runtime, the
 * kernel and a provider, and events come back through the log: nothing calls upwards.
 *
 * A package with a door is entered by its `index.ts` only. The others are the core: a door loads
 * all that is behind it where the sources run, and every package uses most of the core.
 */
export interface Package {
  may: readonly string[];
  door?: true;
  /** Absent: that of its name in `src`. */
  folder?: string;
  /** Beginnings of the paths of its tests, besides `test/<name>/`. */
  tests?: readonly string[];
}

/** Tables and small mechanisms, for every package. */
const BASE = ['base', 'contract', 'home', 'config'];
const RECORDS = [...BASE, 'machines', 'ports'];

/** What answers a request. */
const WORK = [
  RECORDS,
  'logs',
  'store',
  'kernel',
  'models',
  'tools',
  'providers',
  'runtime',
  'fleet',
].flat();

export const packages: Record<string, Package> = {
  base: { may: [] },
  // What goes in and comes out, for every listener and the command line.
  contract: { may: ['base'] },
  machines: { may: ['contract'] },
  home: { may: ['base'] },
  config: { may: ['base', 'contract', 'home', 'ports'] },
  // Interfaces between packages.
  ports: { may: ['contract', 'machines', 'config'] },
  logs: { may: BASE },
  'http-client': { may: BASE },
  // Events on a disk, and their reads.
  store: { folder: 'src/kernel/store', may: RECORDS },
  // The machines that are folded from the log.
  kernel: { may: [...RECORDS, 'store'] },
  models: { door: true, may: [...RECORDS, 'http-client'] },
  engine: { door: true, may: [...BASE, 'ports', 'models', 'logs'] },
  cloud: { door: true, may: [...RECORDS, 'http-client'] },
  tools: { door: true, may: [...RECORDS, 'http-client', 'logs'] },
  // Local models: which process has which one, and their files.
  providers: { may: [...RECORDS, 'models', 'engine', 'cloud'] },
  runtime: { may: [...RECORDS, 'store', 'kernel'] },
  // Several daemons on one log.
  fleet: { door: true, tests: ['test/e2e/fleet'], may: [...RECORDS, 'store', 'kernel', 'runtime'] },
  transport: { may: [...RECORDS, 'store', 'kernel', 'runtime', 'logs', 'tools'] },
  dialects: { door: true, may: [...RECORDS, 'runtime', 'transport'] },
  grpc: { door: true, may: [...RECORDS, 'store', 'kernel', 'runtime', 'transport'] },
  // Browser programs, which the daemon serves as files.
  console: { door: true, tests: ['test/browser/'], may: [] },
  daemon: { may: [...WORK, 'transport', 'dialects', 'grpc'] },
  cli: { may: [...WORK, 'engine', 'transport', 'daemon'] },
};

/** Files directly in `src` that are not of the package `base`. */
const OF_FILE: Record<string, string> = { 'src/main.ts': 'cli', 'src/daemon/index.ts': 'daemon' };
const BASE_FOLDERS = ['src/async', 'src/forms'];

/** `src/fleet` for `fleet`. */
export function folderOf(name: string): string {
  return packages[name]?.folder ?? `src/${name}`;
}

/** The package of a file of `src` or `machines`. */
export function packageOf(file: string): string {
  const [top = '', folder = ''] = file.split('/');
  if (file.startsWith(`${folderOf('store')}/`)) return 'store';
  if (top === 'machines') return top;
  if (BASE_FOLDERS.includes(`${top}/${folder}`)) return 'base';
  return OF_FILE[file] ?? (folder.endsWith('.ts') ? 'base' : folder);
}

/** The files of a package, and their lines. */
export function linesOf(name: string): number {
  return sourcesOf(name).reduce((sum, file) => sum + countLines(file), 0);
}

/** The names that the door of a package gives. */
export function namesOf(name: string): number {
  const door = `${folderOf(name)}/index.ts`;
  if (!existsSync(door)) return 0;
  const text = readFileSync(door, 'utf8');
  const lists = [...text.matchAll(/^export (?:type )?\{([^}]*)\}/gm)];
  const given = lists.flatMap(([, list = '']) =>
    list.split(',').filter((item) => item.trim() !== ''),
  );
  return given.length + [...text.matchAll(/^export const /gm)].length;
}

/** `Budget: 8 300 lines` in the README of a package. Null: it has none. */
export function budgetOf(name: string): number | null {
  const file = `${folderOf(name)}/README.md`;
  if (!existsSync(file)) return null;
  const [, lines] = /^Budget: ([\d ]+) lines/m.exec(readFileSync(file, 'utf8')) ?? [];
  return lines === undefined ? null : Number(lines.replaceAll(' ', ''));
}

/** Whether a test file is one of a package. */
export function isTestOf(name: string, file: string): boolean {
  return [`${folderOf(name).replace('src', 'test')}/`, ...(packages[name]?.tests ?? [])].some(
    (path) => file.startsWith(path),
  );
}

/** What a person reads to work in a package: the machines, the contract, and the package. */
export const KNOWN = ['machines', 'contract'] as const;
export const KNOWN_LINES_MAX = 20_000;

function sourcesOf(name: string): string[] {
  return globSync('{src,machines}/**/*.{ts,js,css,html}')
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => packageOf(file) === name);
}

function countLines(file: string): number {
  return readFileSync(file, 'utf8').trimEnd().split('\n').length;
}
