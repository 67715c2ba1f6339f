import { globSync, readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { findCycle, type Import, importsOf, packageOf, reach } from './layers.ts';

/**
 * Who may import whom. A request flows transport → runtime → kernel → effects → provider, and facts flow back through the log:
 * nothing calls upwards. `may` is what a layer imports; `types` is what it may know the shape of.
 */
interface Layer {
  may: readonly string[];
  types?: readonly string[];
}

/** Tables at the bottom, that any layer above may use. */
const TABLES = ['src/errors.ts', 'src/descriptors.ts', 'src/limits.ts', 'src/pattern.ts', 'src/json.ts', 'src/config.ts', 'src/config-address.ts'];
/** What the kernel asks of those who live with it, and of those who answer prompts. */
const PORTS = ['src/kernel/port.ts', 'src/kernel/provider.ts'];
const TRANSPORT = ['src/runtime', 'machines', ...TABLES];
const WEB = ['src/access.ts', 'src/session.ts', 'src/http-error.ts', 'src/listen.ts', 'src/query.ts'];
const CONFIG = [
  'src/config.ts',
  'src/config-address.ts',
  'src/config-file.ts',
  'src/config-edit.ts',
  'src/config-history.ts',
  'src/config-layers.ts',
  'src/config-lock.ts',
  'src/config-text.ts',
  'src/config-value.ts',
];
const PLACE = ['src/paths.ts', 'src/home.ts', 'src/version.ts', 'src/runtime-file.ts'];

/** The longest name that a path begins with is its layer. */
const layers: Record<string, Layer> = {
  machines: { may: [] },

  'src/errors.ts': { may: [] },
  'src/descriptors.ts': { may: ['src/errors.ts'] },
  'src/limits.ts': { may: [] },
  'src/pattern.ts': { may: [] },
  'src/json.ts': { may: [] },
  'src/paths.ts': { may: [] },
  'src/version.ts': { may: ['src/paths.ts'] },
  'src/home.ts': { may: ['src/paths.ts', ...TABLES] },
  'src/runtime-file.ts': { may: TABLES, types: ['src/control/protocol.ts'] },
  ...Object.fromEntries(CONFIG.map((file): [string, Layer] => [file, { may: [...CONFIG, ...TABLES] }])),

  'src/store': { may: ['machines', ...TABLES] },
  'src/kernel': { may: ['src/store', 'machines', ...TABLES] },
  'src/runtime': { may: ['src/kernel', 'src/store', 'machines', ...TABLES] },

  // A model file is checked before it is loaded as it is when it is fetched.
  'src/providers': { may: [...PORTS, 'machines', 'src/paths.ts', 'src/models/gguf-check.ts', ...TABLES] },
  'src/providers/mini/make': { may: ['src/providers/mini', 'src/cli/commands.ts', ...TABLES] },
  'src/models': { may: [...PORTS, 'src/kernel/puller.ts', 'machines', ...TABLES] },

  'src/logs': { may: TABLES },
  'src/log.ts': { may: ['src/logs', ...TABLES] },
  'src/session.ts': { may: TABLES, types: ['src/session-file.ts'] },
  'src/session-file.ts': { may: TABLES },
  'src/sign-in-page.ts': { may: TABLES },
  'src/token.ts': { may: ['src/home.ts', ...TABLES] },
  'src/access.ts': { may: ['src/session.ts', ...TABLES] },
  'src/http-error.ts': { may: TABLES },
  'src/listen.ts': { may: TABLES },
  'src/query.ts': { may: [...TABLES, 'src/runtime/fields.ts'] },

  // The diagrams lie beside the program.
  'src/http': { may: [...TRANSPORT, ...WEB, 'src/paths.ts'], types: PORTS },
  'src/ws': { may: [...TRANSPORT, ...WEB, 'src/logs'], types: PORTS },
  'src/grpc': { may: [...TRANSPORT, ...WEB], types: PORTS },
  'src/control': { may: TRANSPORT, types: PORTS },

  'src/cli/commands.ts': { may: [] },
  'src/cli': {
    may: ['src/control/client.ts', 'src/control/is-served.ts', ...TABLES, ...CONFIG, ...PLACE, 'src/logs'],
    types: ['src/control', 'src/runtime'],
  },
  'src/cli/daemon/serve.ts': { may: ['src/cli', 'src/daemon.ts', ...TABLES, ...CONFIG, ...PLACE] },
  // A dead daemon is looked at without it: from its log, through the machine that folds it.
  'src/cli/daemon/find-status.ts': {
    may: ['src/cli', 'src/store/inspect.ts', 'machines', 'src/control', ...TABLES, ...CONFIG, ...PLACE],
    types: ['src/runtime'],
  },
  // What was is told from the log, also when no daemon runs: it is read and folded here as the daemon does it.
  'src/cli/past': {
    may: ['src/cli', 'src/store', 'src/kernel', 'src/runtime', 'machines', 'src/control/client.ts', ...TABLES, ...CONFIG, ...PLACE, 'src/logs'],
  },
  'src/cli/machines': { may: ['src/cli', 'machines', ...TABLES, ...PLACE] },
  'src/cli/doctor': {
    may: ['src/cli', 'src/store', 'machines', 'src/control/client.ts', ...TABLES, ...CONFIG, ...PLACE, 'src/logs'],
    types: ['src/control', 'src/runtime'],
  },

  'src/daemon': { may: ['src', 'machines'] },
  'src/daemon.ts': { may: ['src', 'machines'] },
  'src/main.ts': { may: ['src/cli'] },
};

/** Where a process or a thread begins; anything else that nothing imports is dead. */
const entries: Record<string, string> = {
  'src/main.ts': 'the program',
  'src/providers/mini/make/tables.ts': 'prints the tables that the embedded model is made from',
  'src/store/memory.ts': 'the store that tests of what stands above it use; it passes the same suite',
  'machines/diagrams/dot.ts': 'drawn by npm run diagrams',
};

const LINES_MAX = 250;
/** A list of cases reads differently from a program. */
const TEST_LINES_MAX = 400;
const longer: Record<string, string> = {
  'src/errors.ts': 'one table',
  'src/cli/commands.ts': 'one table',
  'machines/events.ts': 'one vocabulary',
  'test/store/conformance.ts': 'one suite that every store passes',
};

const DRAWERS = /^(utils?|helpers?|common|misc|types|manager|index)$|(utils?|helpers?|manager)$/;
/** What a command line that only asks the daemon must not pay for. */
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
  'node-llama-cpp',
  'node:http',
  'node:https',
  'node:http2',
];

/** Commands that cannot do their work without it. */
const NEEDED: Record<string, readonly string[]> = {
  // The lines come over a WebSocket.
  'src/cli/logs/logs.ts': ['ws'],
  // They fold the log themselves.
  'src/cli/past/why.ts': ['xstate'],
  'src/cli/past/replay.ts': ['xstate'],
  'src/cli/past/export.ts': ['xstate'],
  // It shows the machines themselves.
  'src/cli/machines/machines.ts': ['xstate'],
  // It reads the log and folds it, whether a daemon runs or not.
  'src/cli/doctor/doctor.ts': ['xstate', 'better-sqlite3'],
};

const files = globSync('{src,machines}/**/*.ts')
  .map((file) => file.replaceAll('\\', '/'))
  .sort();
const imports = files.flatMap(importsOf);
const inside = imports.filter(({ to }) => to.endsWith('.ts'));

test('the sources are read: files, imports of each kind, and every import of ours leads to a file', () => {
  assert.ok(files.length > 100);
  for (const kind of ['value', 'lazy', 'type'] as const) assert.ok(imports.filter((item) => item.kind === kind).length > 10, kind);
  for (const { from, to } of inside) assert.ok(files.includes(to), `${from} imports ${to}`);
});

test('every layer imports only what its line of the table allows', () => {
  const wrong = inside.filter((item) => item.kind !== 'entry' && !allowed(item)).map(({ from, to, kind }) => `${from} → ${to} (${kind})`);
  assert.equal(wrong, []);
});

test('every line of the table is about something, and allows nothing that is not there', () => {
  const layersThere = new Set(files.map(layerOf));
  for (const [name, { may, types = [] }] of Object.entries(layers)) {
    assert.ok(layersThere.has(name), name);
    for (const target of [...may, ...types])
      assert.ok(
        files.some((file) => within(file, target)),
        `${name}: ${target}`,
      );
  }
});

test('no file imports itself by way of others, and no layer does', () => {
  const values = inside.filter(({ kind }) => kind === 'value' || kind === 'lazy');
  assert.is(findCycle(graph(values, (file) => file)), null);
  const folders = values.map(({ from, to, kind }) => ({ from: folderOf(from), to: folderOf(to), kind })).filter(({ from, to }) => from !== to);
  assert.is(findCycle(graph(folders, (folder) => folder)), null);
});

test('no file is dead, and every entry that is named is one', () => {
  const alive = reach(Object.keys(entries), inside, ['value', 'lazy', 'type', 'entry']);
  assert.equal(
    files.filter((file) => !alive.has(file)),
    [],
  );
  const imported = new Set(inside.map(({ to }) => to));
  for (const entry of Object.keys(entries)) assert.ok(files.includes(entry) && !(imported.has(entry) && entry !== 'src/main.ts'), entry);
});

test('no file is a drawer', () => {
  const drawers = files.filter((file) => DRAWERS.test(file.split('/').at(-1)?.replace('.ts', '') ?? '') && file !== 'src/errors.ts');
  assert.equal(drawers, []);
});

test('a file fits the eye, or says why it does not', () => {
  const length = (file: string) => readFileSync(file, 'utf8').trimEnd().split('\n').length;
  const tests = globSync('test/**/*.ts').map((file) => file.replaceAll('\\', '/'));
  const long = [...files.filter((file) => length(file) > LINES_MAX), ...tests.filter((file) => length(file) > TEST_LINES_MAX)];
  assert.equal(long.sort(), Object.keys(longer).sort());
});

test('what the program imports is a dependency, and every dependency is imported', () => {
  const { dependencies, devDependencies } = JSON.parse(readFileSync('package.json', 'utf8')) as Record<
    'dependencies' | 'devDependencies',
    Record<string, string>
  >;
  const outside = imports.filter(({ to }) => !to.endsWith('.ts') && !to.startsWith('node:') && !to.endsWith('.json'));
  for (const { from, to, kind } of outside) {
    const there = packageOf(to) in dependencies || (kind === 'type' && packageOf(to) in devDependencies);
    assert.ok(there, `${from} imports ${to}`);
  }
  const text = files.map((file) => readFileSync(file, 'utf8')).join('\n');
  const unused = Object.keys(dependencies).filter((name) => !outside.some(({ to }) => packageOf(to) === name) && !text.includes(`'${name}'`));
  assert.equal(unused, []);
});

test('no command but serve loads anything heavy before it needs it', () => {
  const commands = imports.filter(({ from, kind }) => from === 'src/cli/loaders.ts' && kind === 'lazy').map(({ to }) => to);
  assert.ok(commands.length > 15);
  for (const command of commands.filter((file) => file !== 'src/cli/daemon/serve.ts')) {
    const loaded = reach(['src/main.ts', 'src/cli/program.ts', command], imports, ['value']);
    assert.equal(
      HEAVY.filter((name) => loaded.has(name) && !NEEDED[command]?.includes(name)),
      [],
      command,
    );
  }
});

test('the daemon process never loads the engine: only the process that the engine runs in does', () => {
  const loaders = imports.filter(({ to, kind }) => to === 'node-llama-cpp' && kind !== 'type').map(({ from }) => from);
  assert.ok(loaders.length > 0);
  // The doctor loads it in a process of its own, to see whether that can be done.
  for (const file of loaders) assert.ok(file.startsWith('src/providers/local/engine/') || file === 'src/cli/doctor/engine-probe.ts', file);
});

function layerOf(file: string): string {
  const names = Object.keys(layers).filter((name) => within(file, name));
  const longest = names.sort((a, b) => b.length - a.length)[0];
  assert.ok(longest, `${file} is in no layer`);
  return longest;
}

function allowed({ from, to, kind }: Import): boolean {
  const { may, types = [] } = layers[layerOf(from)] ?? { may: [] };
  return [layerOf(from), ...may, ...(kind === 'type' ? types : [])].some((target) => within(to, target));
}

function within(file: string, name: string): boolean {
  return file === name || file.startsWith(`${name}/`);
}

/** `src/http` of `src/http/server.ts`; a file directly in `src` stands for itself, and so does what makes the embedded model. */
function folderOf(file: string): string {
  if (within(file, 'src/providers/mini/make')) return 'src/providers/mini/make';
  const parts = file.split('/');
  return parts[0] === 'machines' ? 'machines' : parts.length === 2 ? file : parts.slice(0, 2).join('/');
}

function graph(items: readonly Import[], name: (file: string) => string): Map<string, Set<string>> {
  const edges = new Map<string, Set<string>>();
  for (const { from, to } of items) edges.set(name(from), (edges.get(name(from)) ?? new Set()).add(name(to)));
  return edges;
}

test.run();
