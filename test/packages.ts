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

/** Tables and small mechanisms. */
const BASE = ['base', 'contract', 'home', 'config'];
const RECORDS = [...BASE, 'machines', 'ports'];
/** Packages that answer a request. */
const WORK = [
  'store',
  'kernel',
  'models',
  'tools',
  'providers',
  'runtime',
  'observability',
  'operations',
  'fleet',
];

export const packages: Record<string, Package> = {
  base: { may: [] },
  // What goes in and comes out, for every listener and the command line.
  contract: { may: ['base'] },
  machines: { may: ['contract'] },
  home: { may: ['base'] },
  config: { may: ['base', 'contract', 'home'] },
  // Interfaces between packages.
  ports: { may: ['contract', 'machines'] },
  logs: { may: BASE },
  'http-client': { may: ['base', 'config'] },
  // Events on a disk, and their reads.
  store: { folder: 'src/kernel/store', may: ['base', 'contract', 'home', 'machines'] },
  // The machines that are folded from the log.
  kernel: { may: ['base', 'contract', 'home', 'machines', 'ports', 'store'] },
  models: { door: true, may: [...RECORDS, 'http-client'] },
  // How families of models write tool calls and reasoning, and the grammars that keep a form.
  'answer-forms': { door: true, may: ['base', 'contract'] },
  engine: { door: true, may: [...BASE, 'ports', 'models', 'logs', 'answer-forms'] },
  cloud: { door: true, may: [...RECORDS, 'http-client'] },
  tools: { door: true, may: [...RECORDS, 'http-client', 'logs'] },
  // Local models: which process has which one, and their files.
  providers: { may: [...RECORDS, 'models', 'engine', 'cloud'] },
  // Runs, and the providers, models and tools that they use.
  runtime: { may: [...RECORDS, 'store', 'kernel'] },
  // What is read of them: history, states, usage, metrics, health, log lines and traces.
  observability: {
    may: ['base', 'contract', 'config', 'machines', 'ports', 'store', 'kernel', 'runtime'],
  },
  // What clients can ask of a daemon.
  operations: {
    may: [
      'base',
      'contract',
      'config',
      'machines',
      'ports',
      'store',
      'kernel',
      'runtime',
      'observability',
    ],
  },
  // Several daemons on one log.
  fleet: { door: true, tests: ['test/e2e/fleet'], may: [...RECORDS, 'store', 'kernel', 'runtime'] },
  transport: {
    may: [...RECORDS, 'store', 'kernel', 'runtime', 'observability', 'operations', 'logs', 'tools'],
  },
  dialects: {
    door: true,
    may: ['base', 'contract', 'config', 'machines', 'runtime', 'operations', 'transport'],
  },
  grpc: {
    door: true,
    may: [
      'base',
      'contract',
      'home',
      'machines',
      'ports',
      'store',
      'runtime',
      'operations',
      'transport',
    ],
  },
  // Browser programs, which the daemon serves as files.
  console: { door: true, tests: ['test/browser/'], may: [] },
  daemon: { may: [...RECORDS, 'logs', ...WORK, 'transport', 'dialects', 'grpc'] },
  // What all commands share: the table, the command line, the daemon or its files, output.
  terminal: {
    folder: 'src/cli/terminal',
    may: [...BASE, 'machines', 'logs', 'store', 'runtime', 'observability', 'fleet', 'transport'],
  },
  // Commands that keep svc itself: install, start, check, configure, update.
  upkeep: {
    folder: 'src/cli/upkeep',
    tests: ['test/cli/'],
    may: [
      ...BASE,
      'machines',
      'logs',
      'store',
      'kernel',
      'models',
      'providers',
      'observability',
      'operations',
      'fleet',
      'engine',
      'transport',
      'daemon',
      'terminal',
    ],
  },
  // Commands that use models.
  cli: {
    may: [
      ...BASE,
      'machines',
      'logs',
      'store',
      'kernel',
      'models',
      'tools',
      'runtime',
      'observability',
      'transport',
      'terminal',
      'upkeep',
    ],
  },
};

/** Packages in the folder of another one. */
const INNER = Object.keys(packages).filter((name) => packages[name]?.folder !== undefined);
/** Of the package `base`, besides the files directly in `src`. */
const BASE_FOLDERS = ['src/async', 'src/forms'];
/** The file directly in `src` that is not. */
const MAIN = 'src/main.ts';

/** `src/fleet` for `fleet`. */
export function folderOfPackage(name: string): string {
  return packages[name]?.folder ?? `src/${name}`;
}

/** The package of a file of `src` or `machines`. */
export function packageOfFile(file: string): string {
  const [top = '', folder = ''] = file.split('/');
  const inner = INNER.find((name) => file.startsWith(`${folderOfPackage(name)}/`));
  if (inner !== undefined) return inner;
  if (top === 'machines') return top;
  if (file === MAIN) return 'cli';
  return folder.endsWith('.ts') || BASE_FOLDERS.includes(`${top}/${folder}`) ? 'base' : folder;
}

/** How many lines the files of a package have. */
export function countLinesOf(name: string): number {
  return sourcesOf(name).reduce((sum, file) => sum + countLines(file), 0);
}

/** How many names the door of a package gives. */
export function countNamesOf(name: string): number {
  const door = `${folderOfPackage(name)}/index.ts`;
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
  const file = `${folderOfPackage(name)}/README.md`;
  if (!existsSync(file)) return null;
  const [, lines] = /^Budget: ([\d ]+) lines/m.exec(readFileSync(file, 'utf8')) ?? [];
  return lines === undefined ? null : Number(lines.replaceAll(' ', ''));
}

/** Whether a test file is one of a package. */
export function isTestOf(name: string, file: string): boolean {
  return [
    `${folderOfPackage(name).replace('src', 'test')}/`,
    ...(packages[name]?.tests ?? []),
  ].some((path) => file.startsWith(path));
}

/** A person who works in a package reads these, and the package. */
export const KNOWN = ['machines', 'contract'] as const;
export const KNOWN_LINES_MAX = 20_000;

function sourcesOf(name: string): string[] {
  return globSync('{src,machines}/**/*.{ts,js,css,html}')
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => packageOfFile(file) === name);
}

function countLines(file: string): number {
  return readFileSync(file, 'utf8').trimEnd().split('\n').length;
}
