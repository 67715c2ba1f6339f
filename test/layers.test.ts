import { globSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { commands } from '../src/cli/commands.ts';
import { findCycle, type Import, importsOf, packageOf, reach } from './layers.ts';

/**
 * Which layer may import which. A request goes from transport to runtime to kernel to provider.
 * Events come back through the log. Nothing calls upwards. `may` allows any import, `types` only
 * types.
 */
interface Layer {
  may: readonly string[];
  types?: readonly string[];
}

/** Tables at the bottom that every layer may use. */
const TABLES = [
  'src/causes.ts',
  'src/errors.ts',
  'src/descriptors.ts',
  'src/limits.ts',
  'src/pattern.ts',
  'src/async',
  'src/forms',
  'src/json.ts',
  'src/config/config.ts',
  'src/config/address.ts',
  'src/config/reference.ts',
  'src/config/certificate.ts',
  'src/config/provider.ts',
  'src/config/presets.ts',
  'src/config/provider-request.ts',
  'src/config/refuse-configured.ts',
  'src/contract/attention.ts',
  'src/contract/options.ts',
  'src/contract/words.ts',
  'src/config/adapters.ts',
  'src/config/key-reference.ts',
  'src/config/mcp-file.ts',
  'src/config/known-providers.ts',
  'src/config/settings.ts',
  'src/config/store/address.ts',
  'src/config/suggest.ts',
  'src/config/value.ts',
  'src/home/atomic-write.ts',
  'src/home/build.ts',
  'src/home/disk.ts',
  'src/home/file-lock.ts',
  'src/home/restrained.ts',
  'src/home/listeners.ts',
  'src/home/platform.ts',
  'src/home/remedy.ts',
  'src/home/process-alive.ts',
  'src/home/version.ts',
];
/** Interfaces between the kernel, the providers and the model downloads. */
const PORTS = [
  'src/kernel/port.ts',
  'src/providers/port.ts',
  'src/providers/keys/port.ts',
  'src/models/port.ts',
  'src/mcp/port.ts',
];
const SERVES = [
  'src/contract',
  'src/runtime',
  'src/transport/auth',
  ...TRANSPORT_PARTS(),
  'machines',
  ...TABLES,
];
/** What a command needs to find the daemon and the files of its home. */
const PLACE = ['src/config', 'src/home', ...TABLES];
const CLIENT = [
  'src/transport/control/client.ts',
  'src/transport/control/is-served.ts',
  'src/transport/stream/stream-end.ts',
  // How the target of a run is shown.
  'machines/failover.ts',
];

/** APIs of others. None imports another. */
const APIS = ['src/transport/anthropic', 'src/transport/ollama', 'src/transport/openai'];

/** Files directly in `src/transport/`, which all listeners share. */
function TRANSPORT_PARTS(): string[] {
  const names = [
    'cancel-when-gone',
    'http-error',
    'listen',
    'refusals',
    'request-id',
    'served-certificate',
    'socket-route',
  ];
  return ['src/transport/stream', ...names.map((name) => `src/transport/${name}.ts`)];
}

/** The longest matching prefix of a path is its layer. */
const layers: Record<string, Layer> = {
  'src/async': { may: ['src/errors.ts', 'src/descriptors.ts'] },
  // Bytes for clients, whatever protocol they speak.
  'src/transport/stream': { may: SERVES, types: [...PORTS, 'src/transport/http/route.ts'] },
  // Types only: what an event holds is declared once, in its schema.
  machines: { may: [], types: ['src/contract'] },

  'src/causes.ts': { may: [] },
  'src/errors.ts': { may: [] },
  'src/descriptors.ts': { may: ['src/causes.ts', 'src/errors.ts'] },
  'src/limits.ts': { may: [] },
  'src/pattern.ts': { may: [] },
  'src/json.ts': { may: ['src/limits.ts'] },
  'src/forms': { may: ['src/json.ts'] },
  'src/config': { may: TABLES },
  'src/home': { may: TABLES },
  'src/logs': { may: TABLES },

  // What goes in and comes out, for every listener and the command line.
  'src/contract': {
    may: ['src/kernel/clock.ts', ...TABLES],
    types: ['machines', 'src/kernel', 'src/store/port.ts', 'src/runtime', ...PORTS],
  },
  'src/contract/opaque-forms.ts': { may: ['machines', ...TABLES] },
  'src/store': { may: ['machines', ...TABLES] },
  'src/kernel': { may: ['src/store', 'machines', ...TABLES], types: PORTS },
  'src/runtime': {
    may: ['src/contract', 'src/kernel', 'src/store', ...PORTS, 'machines', ...TABLES],
    types: ['src/config/models-file.ts'],
  },

  // Several daemons on one log. Only the daemon is built of it, and commands read its database.
  'src/fleet': {
    may: [
      'src/kernel',
      'src/store',
      'src/runtime',
      'src/home',
      'src/config/store/password.ts',
      'src/contract',
      'machines',
      ...TABLES,
    ],
    types: ['src/daemon/site.ts', ...PORTS],
  },

  // Providers and pulls check model files with the same reader.
  'src/providers/keys': { may: ['src/config', 'src/home', 'src/descriptors.ts', ...TABLES] },
  'src/providers': {
    may: [
      ...PORTS,
      'machines',
      'src/home/allocator.ts',
      'src/home/engine-builds.ts',
      'src/home/paths.ts',
      'src/logs/plain.ts',
      'src/models/gguf',
      'src/models/catalogue.ts',
      'src/models/memory-needs.ts',
      'src/models/model-names.ts',
      'src/models/origins.ts',
      'src/http-client',
      'src/contract/opaque-forms.ts',
      'src/contract/events.ts',
      'src/contract/loaded-models.ts',
      'src/contract/reading.ts',
      ...TABLES,
    ],
    types: ['src/contract'],
  },
  'src/mcp': {
    may: [...PORTS, 'machines', 'src/http-client', 'src/logs/plain.ts', ...TABLES],
    types: ['src/contract'],
  },
  'src/models': { may: [...PORTS, 'machines', 'src/http-client', ...TABLES] },
  // What providers and downloads need of HTTP.
  'src/http-client': { may: TABLES },

  'src/transport': { may: [...TABLES, 'src/contract'], types: ['src/runtime', ...PORTS] },
  // It joins the routes of every API.
  'src/transport/routes.ts': {
    may: ['src/transport/http', 'src/transport/socket-route.ts', 'src/transport/mcp', ...APIS],
  },
  'src/transport/auth': {
    may: ['src/home', 'src/runtime/principal/principal.ts', ...TABLES],
    types: ['src/contract'],
  },
  // What the APIs of others share. They build on the HTTP listener, whose table has their routes.
  'src/transport/dialect': { may: ['src/transport/http', ...SERVES], types: PORTS },
  ...Object.fromEntries(
    APIS.map((api) => [
      api,
      { may: ['src/transport/dialect', 'src/transport/http', ...SERVES], types: PORTS },
    ]),
  ),
  // The operations of the local socket, as tools. Both sides of MCP cut texts alike.
  'src/transport/mcp': {
    may: [
      'src/transport/http',
      'src/transport/control/methods.ts',
      'src/mcp/tool-list.ts',
      ...SERVES,
    ],
    types: PORTS,
  },
  // The diagrams are files beside the program.
  'src/transport/http': { may: [...SERVES, 'src/home/paths.ts'], types: PORTS },
  'src/transport/ws': { may: [...SERVES, 'src/logs'], types: PORTS },
  'src/transport/grpc': { may: [...SERVES, 'src/kernel/clock.ts'], types: PORTS },
  'src/transport/control': { may: SERVES, types: PORTS },

  'src/cli/commands.ts': { may: ['src/contract/options.ts', 'src/contract/words.ts'] },
  'src/cli': {
    // The ids of calls.
    may: [...CLIENT, ...PLACE, 'src/logs', 'machines/messages.ts'],
    types: ['src/transport/control', 'src/contract', 'src/runtime'],
  },
  'src/cli/daemon/serve.ts': { may: ['src/cli', 'src/daemon.ts', ...PLACE] },
  // The status of a dead daemon is folded from its log.
  'src/cli/daemon/find-status.ts': {
    may: ['src/cli', 'src/store/inspect/inspect.ts', 'machines', 'src/transport/control', ...PLACE],
    types: ['src/contract', 'src/runtime'],
  },
  // These commands fold the log themselves, also without a daemon.
  'src/cli/runs': {
    may: [
      'src/cli',
      'src/store',
      'src/fleet/postgres',
      'src/contract',
      'src/kernel',
      'src/runtime',
      'machines',
      'src/logs',
      ...CLIENT,
      ...PLACE,
    ],
    types: ['src/transport/control'],
  },
  // The log is folded by two builds.
  'src/cli/upgrade': {
    may: ['src/cli', 'src/store', 'src/kernel', 'machines', 'src/logs', ...PLACE],
  },
  // Another build asks which formats of the log this one knows.
  'src/cli/version.ts': { may: ['src/cli', 'machines/events.ts', 'src/logs', ...PLACE] },
  // They read and write the store themselves.
  'src/cli/transfer': {
    may: [
      'src/cli',
      'src/contract',
      'src/store',
      'src/fleet/postgres',
      'src/runtime',
      'src/logs',
      ...PLACE,
    ],
  },
  // The table of short names is also read without a daemon.
  'src/cli/model': {
    may: [
      'src/cli',
      'src/models/catalogue.ts',
      'src/models/memory-needs.ts',
      ...CLIENT,
      ...PLACE,
      'src/logs',
    ],
    types: ['src/transport/control', 'src/contract', 'src/runtime'],
  },
  // It brings an archive as a model is brought.
  'src/cli/engine': { may: ['src/cli', 'src/models/hub', 'src/logs', ...CLIENT, ...PLACE] },
  'src/cli/completion': {
    may: ['src/cli', 'src/models/catalogue.ts', ...PLACE],
    types: ['src/transport/control'],
  },
  // Keys are stored, and servers are found, without a daemon.
  'src/cli/provider': {
    may: [
      'src/cli',
      'src/providers/keys',
      'src/providers/discover.ts',
      'src/logs',
      ...CLIENT,
      ...PLACE,
    ],
    types: ['src/transport/control', 'src/contract', 'src/runtime'],
  },
  // They write mcp.json, and store keys of servers, without a daemon.
  'src/cli/mcp': {
    may: ['src/cli', 'src/providers/keys', 'src/logs', ...CLIENT, ...PLACE],
    types: ['src/transport/control', 'src/contract', 'src/runtime'],
  },
  // A person logs in here. The daemon only uses what is stored then.
  'src/cli/mcp/login.ts': {
    may: [
      'src/cli',
      'src/mcp',
      'src/providers/keys',
      'src/transport/auth/sign-in-page.ts',
      'src/logs',
      ...CLIENT,
      ...PLACE,
    ],
  },
  // It ends the tokens where they came from.
  'src/cli/mcp/logout.ts': {
    may: [
      'src/cli',
      'src/mcp/revocation.ts',
      'src/providers/keys',
      'src/logs',
      ...CLIENT,
      ...PLACE,
    ],
  },
  // It offers what the daemon does, and the findings of svc doctor.
  'src/cli/mcp/serve.ts': { may: ['src/cli', 'src/transport/mcp', ...CLIENT, ...PLACE] },
  'src/cli/machines': { may: ['src/cli', 'machines', ...PLACE] },
  // A process that loads llama.cpp, to see whether it works.
  'src/cli/doctor/engine-probe.ts': { may: ['src/providers/local/engine'] },
  'src/cli/doctor': {
    may: [
      'src/cli',
      'src/daemon/home-files.ts',
      'src/store',
      'src/fleet/postgres',
      'machines',
      ...CLIENT,
      ...PLACE,
      'src/logs',
    ],
    types: ['src/transport/control', 'src/contract', 'src/runtime'],
  },

  'src/daemon': { may: ['src', 'machines'] },
  'src/daemon.ts': { may: ['src', 'machines'] },
  'src/main.ts': { may: ['src/cli'] },
};

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
  'src/cli/commands.ts': 'one table',
  'src/config/settings.ts': 'one table',
  'src/contract/options.ts': 'one table',
  'src/limits.ts': 'one table',
  'test/clients/table.ts': 'one table',
  'test/layers.test.ts': 'one table',
  'test/runtime/runs/recover.test.ts': 'one list of cases',
  'test/store/conformance.ts': 'one suite that every store passes',
};

const DRAWERS = /^(utils?|helpers?|common|misc|types|manager|index)$|(utils?|helpers?|manager)$/;
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
  'src/cli/logs/logs.ts': ['ws'],
  // They fold the log themselves.
  'src/cli/runs/why.ts': ['xstate'],
  'src/cli/runs/replay.ts': ['xstate', 'valibot'],
  'src/cli/runs/export.ts': ['xstate'],
  'src/cli/transfer/import.ts': ['xstate'],
  // It writes the stored key.
  'src/cli/provider/key.ts': ['valibot'],
  // It stores the tokens.
  'src/cli/mcp/login.ts': ['valibot'],
  // Its tools come from the rows of the operations.
  'src/cli/mcp/serve.ts': ['valibot', '@valibot/to-json-schema'],
  // It shows the machines themselves.
  'src/cli/machines/machines.ts': ['xstate'],
  // It reads and folds the log, with or without a daemon.
  'src/cli/doctor/doctor.ts': ['xstate', 'better-sqlite3'],
};

const files = globSync('{src,machines}/**/*.ts')
  .map((file) => file.replaceAll('\\', '/'))
  .sort();
const imports = files.flatMap(importsOf);
const inside = imports.filter(({ to }) => to.endsWith('.ts'));

test('the sources are read, and every import leads to a file', () => {
  assert.ok(files.length > 100);
  for (const kind of ['value', 'lazy', 'type'] as const)
    assert.ok(imports.filter((item) => item.kind === kind).length > 10, kind);
  for (const { from, to } of inside) assert.ok(files.includes(to), `${from} imports ${to}`);
});

test('each layer imports only what the table allows', () => {
  const wrong = inside
    .filter((item) => item.kind !== 'entry' && !allowed(item))
    .map(({ from, to, kind }) => `${from} → ${to} (${kind})`);
  assert.equal(wrong, []);
});

test('each line of the table matches files, and so does each path it allows', () => {
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
  );
  const imported = new Set(inside.map(({ to }) => to));
  for (const entry of Object.keys(entries))
    assert.ok(files.includes(entry) && !(imported.has(entry) && entry !== 'src/main.ts'), entry);
});

test('one table says what differs between systems', () => {
  const asking = files.filter((file) =>
    /process\.platform|'(?:win32|darwin)'|os\.(?:platform|type)\(/.test(readFileSync(file, 'utf8')),
  );
  assert.equal(asking, ['src/home/platform.ts']);
});

test('one function makes a signal of several', () => {
  const making = files.filter((file) => readFileSync(file, 'utf8').includes('AbortSignal.any('));
  assert.equal(making, ['src/async/signals.ts']);
});

test('no file is called utils, helpers or the like', () => {
  const drawers = files.filter(
    (file) =>
      DRAWERS.test(file.split('/').at(-1)?.replace('.ts', '') ?? '') && file !== 'src/errors.ts',
  );
  assert.equal(drawers, []);
});

test('a long file has a reason', () => {
  const length = (file: string) => readFileSync(file, 'utf8').trimEnd().split('\n').length;
  const tests = globSync('test/**/*.ts').map((file) => file.replaceAll('\\', '/'));
  const long = [
    ...files.filter((file) => length(file) > LINES_MAX),
    ...tests.filter((file) => length(file) > TEST_LINES_MAX),
  ];
  assert.equal(long.sort(), Object.keys(longer).sort());
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
  assert.equal(unused, []);
});

test('only serve loads a heavy import at its start', () => {
  for (const command of starts.filter((file) => file !== 'src/cli/daemon/serve.ts')) {
    const loaded = reach(['src/main.ts', 'src/cli/program.ts', command], imports, ['value']);
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
  for (const file of loaders) assert.ok(file.startsWith('src/providers/local/engine/'), file);
});

function layerOf(file: string): string {
  const names = Object.keys(layers).filter((name) => within(file, name));
  const longest = names.sort((a, b) => b.length - a.length)[0];
  assert.ok(longest, `${file} is in no layer`);
  return longest;
}

function allowed({ from, to, kind }: Import): boolean {
  const { may, types = [] } = layers[layerOf(from)] ?? { may: [] };
  return [layerOf(from), ...may, ...(kind === 'type' ? types : [])].some((target) =>
    within(to, target),
  );
}

function within(file: string, name: string): boolean {
  return file === name || file.startsWith(`${name}/`);
}

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
