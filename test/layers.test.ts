import { globSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { commands } from '../src/cli/terminal/commands.ts';
import {
  findCycle,
  type Import,
  importersByFile,
  importsOf,
  packageOf,
  reach,
  throughDoors,
} from './layers.ts';
import { folderOfPackage, packageOfFile, packages } from './packages.ts';

/** Entries of processes and threads. Any other file that nothing imports is dead. */
const entries: Record<string, string> = {
  'src/main.ts': 'the program',
  'src/cli/quick-help.ts': 'the help, as tools/build.mjs writes it',
  'src/cli/quick-serve.ts': 'the daemon, as tools/build.mjs writes it',
};
/** The code of each command, which the program imports by its name. */
const starts = commands.map(({ file }) => `src/cli/${file}.ts`);

const LINES_MAX = 450;
/** A listing of the folder fits on a screen. */
const FOLDER_FILES_MAX = 25;
/** Tables and entry points. */
const LOOSE_FILES_MAX = 8;
/** A list of cases may be longer than a program. */
const TEST_LINES_MAX = 500;
const longer: Record<string, string> = {
  'src/errors.ts': 'one table',
  'src/cli/terminal/commands.ts': 'one table',
  'src/config/settings.ts': 'one table',
  'src/contract/options.ts': 'one table',
  'src/limits.ts': 'one table',
  'test/clients/table.ts': 'one table',
  'test/runtime/runs/recover.test.ts': 'one list of cases',
  'test/kernel/store/conformance.ts': 'one suite that every store passes',
};

const DRAWERS = /^(utils?|helpers?|common|misc|types|manager)$|(utils?|helpers?|manager)$/;
/** Imports that a command must not load just to ask the daemon. */
const HEAVY = [
  'xstate',
  'better-sqlite3',
  'polka',
  'ws',
  '@grpc/grpc-js',
  'pino',
  'pino-pretty',
  'undici',
  '@ai-sdk/openai-compatible',
  'koffi',
  'valibot',
  '@valibot/to-json-schema',
  'node:http',
  'node:https',
  'node:http2',
];

/** Exceptions: what a command needs for its work. */
const NEEDED: Record<string, readonly string[]> = {
  // The lines come over a WebSocket.
  'src/cli/upkeep/logs/logs.ts': ['ws'],
  // They fold the log themselves.
  'src/cli/runs/why.ts': ['xstate'],
  'src/cli/runs/replay.ts': ['xstate', 'valibot'],
  'src/cli/runs/export.ts': ['xstate'],
  'src/cli/upkeep/transfer/import.ts': ['xstate'],
  // It writes the stored key.
  'src/cli/provider/key.ts': ['valibot'],
  // It stores the tokens.
  'src/cli/mcp/login.ts': ['valibot'],
  // Its tools come from the rows of the operations.
  'src/cli/mcp/serve.ts': ['valibot', '@valibot/to-json-schema'],
  // It shows the machines themselves.
  'src/cli/upkeep/machines/machines.ts': ['xstate'],
  // It reads and folds the log, with or without a daemon.
  'src/cli/upkeep/doctor/doctor.ts': ['xstate', 'better-sqlite3'],
};

const files = globSync('{src,machines}/**/*.ts')
  .map((file) => file.replaceAll('\\', '/'))
  .sort();
const imports = files.flatMap(importsOf);
/** The program starts itself again: `src/home/program-file.ts`. */
const isItself = ({ to, kind }: Import) => kind === 'entry' && to === 'src/main.ts';
const inside = imports.filter((item) => item.to.endsWith('.ts') && !isItself(item));
const bundled = throughDoors(imports);

test('the sources are read, and every import leads to a file', () => {
  assert.ok(files.length > 100);
  for (const kind of ['value', 'lazy', 'type'] as const)
    assert.ok(imports.filter((item) => item.kind === kind).length > 10, kind);
  for (const { from, to } of inside) assert.ok(files.includes(to), `${from} imports ${to}`);
});

test('each package imports only what the table allows', () => {
  const wrong = inside
    .filter(({ from, to }) => {
      const [own, other] = [packageOfFile(from), packageOfFile(to)];
      return own !== other && !packages[own]?.may.includes(other);
    })
    .map(({ from, to, kind }) => `${from} → ${to} (${kind})`);
  assert.equal(wrong, [], 'import less, or edit `may` in test/packages.ts');
});

test('a package with a door is entered by it only', () => {
  const past = inside
    .filter(({ from, to }) => {
      const other = packageOfFile(to);
      return (
        packages[other]?.door === true &&
        packageOfFile(from) !== other &&
        to !== `${folderOfPackage(other)}/index.ts`
      );
    })
    .map(({ from, to }) => `${from} → ${to}`);
  assert.equal(past, [], 'import from index.ts of the package, or export it there');
  for (const [name, { door }] of Object.entries(packages))
    if (door === true && name !== 'console')
      assert.ok(files.includes(`${folderOfPackage(name)}/index.ts`), `${name} has no index.ts`);
});

test('the table has each package, lowest first, and allows only what is used', () => {
  const names = Object.keys(packages);
  const there = new Set([...files.map(packageOfFile), 'console']);
  assert.equal([...there].sort(), names.toSorted(), '`packages` is in test/packages.ts');
  const used = new Set(
    inside.map(({ from, to }) => `${packageOfFile(from)} → ${packageOfFile(to)}`),
  );
  for (const [at, name] of names.entries())
    for (const other of packages[name]?.may ?? []) {
      assert.ok(names.indexOf(other) < at, `${name} may import ${other}, which comes later`);
      assert.ok(used.has(`${name} → ${other}`), `${name} imports nothing of ${other}`);
    }
});

test('a name of a door leads to the file behind it, also when it is loaded on demand', () => {
  const importers = importersByFile();
  assert.ok(importers.get('src/grpc/server.ts')?.includes('src/daemon/transports.ts'));
  assert.ok(importers.get('src/tools/sign-in.ts')?.includes('src/cli/mcp/login.ts'));
  assert.not.ok(importers.get('src/tools/servers.ts')?.includes('src/cli/mcp/login.ts'));
});

test('no import cycle exists between files or layers', () => {
  const values = inside.filter(({ kind }) => kind === 'value' || kind === 'lazy');
  assert.is(findCycle(graph(values, (file) => file)), null);
  const folders = values
    .map(({ from, to, kind }) => ({ from: folderOf(from), to: folderOf(to), kind }))
    .filter(({ from, to }) => from !== to);
  assert.is(findCycle(graph(folders, (folder) => folder)), null);
});

test('no file is dead, and each named entry is an entry', () => {
  const alive = reach([...Object.keys(entries), ...starts], inside, [
    'value',
    'lazy',
    'type',
    'entry',
  ]);
  assert.equal(
    files.filter((file) => !alive.has(file)),
    [],
    'delete the file, or name it in `entries` of test/layers.test.ts',
  );
  const imported = new Set(inside.map(({ to }) => to));
  for (const entry of Object.keys(entries))
    assert.ok(files.includes(entry) && !(imported.has(entry) && entry !== 'src/main.ts'), entry);
});

test('one table says what differs between systems', () => {
  const asking = files.filter((file) =>
    /process\.platform|'(?:win32|darwin)'|os\.(?:platform|type)\(/.test(readFileSync(file, 'utf8')),
  );
  assert.equal(asking, ['src/home/platform.ts'], 'add a row to src/home/platform.ts');
});

test('one function makes a signal of several', () => {
  const making = files.filter((file) => readFileSync(file, 'utf8').includes('AbortSignal.any('));
  assert.equal(making, ['src/async/signals.ts'], 'call anySignal of src/async/signals.ts');
});

test('no file is called utils, helpers or the like', () => {
  const drawers = files.filter(
    (file) =>
      DRAWERS.test(file.split('/').at(-1)?.replace('.ts', '') ?? '') && file !== 'src/errors.ts',
  );
  assert.equal(drawers, [], 'name the file after its content');
});

test('a long file has a reason', () => {
  const length = (file: string) => readFileSync(file, 'utf8').trimEnd().split('\n').length;
  const tests = globSync('test/**/*.ts').map((file) => file.replaceAll('\\', '/'));
  const long = [
    ...files.filter((file) => length(file) > LINES_MAX),
    ...tests.filter((file) => length(file) > TEST_LINES_MAX),
  ];
  assert.equal(
    long.sort(),
    Object.keys(longer).sort(),
    'split it, or edit `longer` in test/layers.test.ts',
  );
});

test('no folder has too many files, and few files are directly in src', () => {
  const count = new Map<string, number>();
  for (const file of files) count.set(dirname(file), (count.get(dirname(file)) ?? 0) + 1);
  assert.ok((count.get('src') ?? 0) <= LOOSE_FILES_MAX, 'src');
  for (const [folder, n] of count) assert.ok(n <= FOLDER_FILES_MAX, `${folder}: ${n} files`);
});

test('imported packages are dependencies, and dependencies are imported', () => {
  const { dependencies, devDependencies } = JSON.parse(
    readFileSync('package.json', 'utf8'),
  ) as Record<'dependencies' | 'devDependencies', Record<string, string>>;
  const outside = imports.filter(
    ({ to }) => !to.endsWith('.ts') && !to.startsWith('node:') && !to.endsWith('.json'),
  );
  for (const { from, to, kind } of outside) {
    const there =
      packageOf(to) in dependencies || (kind === 'type' && packageOf(to) in devDependencies);
    assert.ok(there, `${from} imports ${to}`);
  }
  const text = files.map((file) => readFileSync(file, 'utf8')).join('\n');
  const unused = Object.keys(dependencies).filter(
    (name) => !outside.some(({ to }) => packageOf(to) === name) && !text.includes(`'${name}'`),
  );
  assert.equal(unused, [], 'remove it from package.json');
});

test('only serve loads a heavy import at its start', () => {
  for (const command of starts.filter((file) => file !== 'src/cli/upkeep/daemon/serve.ts')) {
    const loaded = reach(['src/main.ts', 'src/cli/program.ts', command], bundled, ['value']);
    assert.equal(
      HEAVY.filter((name) => loaded.has(name) && !NEEDED[command]?.includes(name)),
      [],
      command,
    );
  }
});

test('only the engine process loads the engine', () => {
  const loaders = imports
    .filter(({ to, kind }) => to === 'koffi' && kind !== 'type')
    .map(({ from }) => from);
  assert.ok(loaders.length > 0);
  for (const file of loaders) assert.ok(file.startsWith('src/engine/'), file);
});

/**
 * `src/transport` for `src/transport/http/server.ts`. A file directly in `src` is its own folder.
 */
function folderOf(file: string): string {
  const parts = file.split('/');
  return parts[0] === 'machines'
    ? 'machines'
    : parts.length === 2
      ? file
      : parts.slice(0, 2).join('/');
}

function graph(items: readonly Import[], name: (file: string) => string): Map<string, Set<string>> {
  const edges = new Map<string, Set<string>>();
  for (const { from, to } of items)
    edges.set(name(from), (edges.get(name(from)) ?? new Set()).add(name(to)));
  return edges;
}

test.run();
