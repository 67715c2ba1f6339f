import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Server as GrpcServer, ServerCredentials } from '@grpc/grpc-js';
import { HealthImplementation } from 'grpc-health-check';
import * as assert from 'uvu/assert';
import { writeRuntimeFile } from '../../src/home/runtime-file.ts';
import { type Home, PROGRAM } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { completed, run, runtimeFile, suiteWithDaemon } from './fake-daemon.ts';

/** What a command loads decides how fast it is, on any machine. */
const test = suiteWithDaemon('bundles of commands');

const ASKS = ['net', 'stream'];
/** Tables that take half a millisecond to build. */
const LIMITS = 'src/limits.ts';
const OPTIONS = 'src/contract/options.ts';
const SETTINGS = 'src/config/settings.ts';
const TABLES = [LIMITS, OPTIONS, 'src/cli/terminal/commands.ts'];
interface Loads {
  args?: string[];
  /** By default the words of the command are the name. */
  file?: string;
  kib: number;
  needs?: string[];
  /** The slow tables that it has. */
  tables?: string[];
}

/** Commands with a bound of their bundle in KiB, a twelfth above it, and the slow modules. */
const COMMANDS: Record<string, Loads> = {
  version: { kib: 43 },
  // It needs a limit where no daemon answers.
  status: { kib: 81, needs: ASKS, tables: [LIMITS] },
  health: { args: ['--source', 'socket'], kib: 68, needs: ASKS },
  'health --source grpc': { file: 'health', kib: 68, needs: ASKS },
  '--help': { file: 'help', kib: 104, tables: TABLES },
  'help run': { file: 'help', kib: 104, tables: TABLES },
  // What --run needs is in the whole program.
  logs: { args: ['--tail', '5'], kib: 85, tables: [LIMITS] },
  run: { args: ['hi', '--no-start'], kib: 177, needs: ASKS, tables: [LIMITS, OPTIONS, SETTINGS] },
  'runs list': { kib: 62, needs: ASKS },
  usage: { kib: 67, needs: ASKS },
  'model list': { kib: 55, needs: ASKS },
  'provider list': { kib: 59, needs: ASKS },
};
const NOTHING_USED = {
  groups: [],
  total: { runs: 0, without_price: [] },
  covers_since: null,
  budget: { per_day: null, tokens_per_day: null },
};

/** Modules of Node that take a millisecond or more to load. */
const SLOW = [
  'http',
  'https',
  'http2',
  'tls',
  'child_process',
  'worker_threads',
  'inspector',
  'module',
  'net',
  'stream',
  'crypto',
  'perf_hooks',
  'timers/promises',
  'fs/promises',
  'v8',
  'zlib',
];
/** Modules of Node above those of an empty script. A socket needs 24 of them. */
const BUILTINS_MAX = { alone: 5, asking: 26 };

/** Prints what the process has loaded, as the last line of stderr. */
const REPORT = `
  import { registerHooks } from 'node:module';
  const files = [];
  registerHooks({ load: (url, context, next) => (files.push(url), next(url, context)) });
  const names = () => process.moduleLoadList.map((name) => name.replace(/^NativeModule /, ''));
  const before = new Set(names());
  process.on('exit', () => {
    const builtin = names().filter((name) => !before.has(name) && !name.includes(' '));
    process.getBuiltinModule('fs').writeSync(2, '\\n' + JSON.stringify({ files, builtin }));
  });`;

/** The option of Node with which a process reports. */
function reporting(home: Home): string {
  const report = join(home.folder, 'report.mjs');
  writeFileSync(report, REPORT);
  return `--import ${report}`;
}

function reportIn(stderr: string): { files: string[]; builtin: string[] } {
  return JSON.parse(stderr.trimEnd().split('\n').at(-1) ?? '');
}

const grpc = new GrpcServer();
new HealthImplementation({ 'svc.livez': 'SERVING', 'svc.readyz': 'SERVING' }).addToServer(grpc);
const bound = new Promise<number>((resolve, reject) =>
  grpc.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) =>
    error ? reject(error) : resolve(port),
  ),
);
test.after(() => grpc.forceShutdown());

async function listenOnGrpc(home: Home): Promise<void> {
  const addresses = { ...runtimeFile.addresses, grpc: `127.0.0.1:${await bound}` };
  await writeRuntimeFile(home.paths.runtime, { ...runtimeFile, addresses });
}

for (const [command, loads] of Object.entries(COMMANDS)) {
  const { args = [], file = command.replace(' ', '-'), kib, needs = [], tables = [] } = loads;
  test(`svc ${command} is one file, and loads no slow module of Node`, async ({ home, daemon }) => {
    daemon.on('run.start', ({ event, result }) => {
      event({ run });
      result(completed('hello'));
    });
    daemon.on('run.list', ({ result }) => result({ runs: [run], next: null }));
    daemon.on('usage', ({ result }) => result(NOTHING_USED));
    daemon.on('model.list', ({ result }) => result({ models: [] }));
    daemon.on('provider.list', ({ result }) => result({ providers: [] }));
    await listenOnGrpc(home);
    const { code, stderr } = await home.svc([...command.split(' '), ...args], {
      env: { NODE_OPTIONS: reporting(home) },
    });
    assert.is(code, 0, stderr);
    const { files, builtin } = reportIn(stderr);
    const ours = files.filter((url) => url.startsWith('file:')).map((url) => fileURLToPath(url));
    assert.equal(ours, [PROGRAM]);
    assert.equal(
      SLOW.filter((name) => builtin.includes(name)),
      needs,
    );
    const most = needs.length === 0 ? BUILTINS_MAX.alone : BUILTINS_MAX.asking;
    assert.ok(builtin.length <= most, builtin.join(' '));
    const bundle = join(dirname(PROGRAM), 'cli', 'quick', `${file}.js`);
    assert.ok(statSync(bundle).size <= kib * 1024, `${statSync(bundle).size} bytes`);
    const { sources } = JSON.parse(readFileSync(`${bundle}.map`, 'utf8')) as { sources: string[] };
    const has = (table: string) => sources.some((source) => source.endsWith(`/${table}`));
    assert.equal([LIMITS, OPTIONS, SETTINGS, ...TABLES.slice(2)].filter(has), tables);
  });
}

test('the daemon is one file', async ({ home, daemon }) => {
  await daemon.close();
  const { child, ended, stdout } = home.spawn(['serve'], {
    env: { NODE_OPTIONS: reporting(home) },
  });
  await waitFor('the daemon is ready', () => stdout().includes('ready after'));
  child.kill('SIGTERM');
  const { code, stderr } = await ended;
  assert.is(code, 0, stderr);
  const dist = `${pathToFileURL(dirname(dirname(PROGRAM)))}/`;
  const ours = reportIn(stderr).files.filter((url) => url.startsWith(dist));
  assert.equal(ours, [`${pathToFileURL(PROGRAM)}`]);
});

test('a command without stdin loads no module of terminals', ({ home }) => {
  const { status, stderr } = spawnSync(process.execPath, [PROGRAM, 'logs', '--tail', '5'], {
    env: { ...home.env, NODE_OPTIONS: reporting(home) },
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  assert.is(status, 0, stderr);
  assert.not(reportIn(stderr).builtin.includes('tty'));
});

test('the next run has the code that a run compiled, unless that is damaged', async ({ home }) => {
  const version = async () => {
    const { code, stdout, stderr } = await home.svc(['version'], { env: { TMPDIR: home.folder } });
    assert.equal([code, stderr], [0, '']);
    return stdout;
  };
  const stdout = await version();
  const folder = join(home.folder, `svc-${process.getuid?.()}`, 'code');
  const [name = ''] = readdirSync(folder);
  const file = join(folder, name);
  const { ino } = statSync(file);
  const kept = readFileSync(file);
  await version();
  assert.is(statSync(file).ino, ino);
  for (const damage of [
    (bytes: Buffer) => bytes.fill(0, 8_000, 12_096),
    (bytes: Buffer) => bytes.subarray(0, 20_000),
    (bytes: Buffer) => bytes.subarray(0, 0),
    // Both copies are equal, and of other code.
    (bytes: Buffer) => bytes.fill(0),
  ]) {
    writeFileSync(file, damage(Buffer.from(kept)));
    assert.is(await version(), stdout);
    const written = readFileSync(file);
    const half = written.length / 2;
    assert.ok(half > 10_000 && written.subarray(0, half).equals(written.subarray(half)));
  }
  assert.equal(readdirSync(folder), [name]);
});

test.run();
