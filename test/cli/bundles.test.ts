import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as assert from 'uvu/assert';
import { PROGRAM } from '../helpers/svc.ts';
import { completed, run, suiteWithDaemon } from './fake-daemon.ts';

/** What a command loads decides how fast it is, on any machine. */
const test = suiteWithDaemon('bundles of commands');

const ASKS = ['net', 'stream'];
/** Commands with a bound of their bundle in KiB, a twelfth above it, and the slow modules. */
const COMMANDS: Record<string, { args?: string[]; kib: number; needs?: string[] }> = {
  version: { kib: 43 },
  status: { kib: 81, needs: ASKS },
  health: { args: ['--source', 'socket'], kib: 61, needs: ASKS },
  // What --run needs is in the whole program.
  logs: { args: ['--tail', '5'], kib: 95 },
  run: { args: ['hi', '--no-start'], kib: 219, needs: ASKS },
  'runs list': { kib: 73, needs: ASKS },
  usage: { kib: 67, needs: ASKS },
  'model list': { kib: 55, needs: ASKS },
  'provider list': { kib: 110, needs: ASKS },
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

for (const [command, { args = [], kib, needs = [] }] of Object.entries(COMMANDS)) {
  test(`svc ${command} is one file, and loads no slow module of Node`, async ({ home, daemon }) => {
    daemon.on('run.start', ({ event, result }) => {
      event({ run });
      result(completed('hello'));
    });
    daemon.on('run.list', ({ result }) => result({ runs: [run], next: null }));
    daemon.on('usage', ({ result }) => result(NOTHING_USED));
    daemon.on('model.list', ({ result }) => result({ models: [] }));
    daemon.on('provider.list', ({ result }) => result({ providers: [] }));
    const report = join(home.folder, 'report.mjs');
    writeFileSync(report, REPORT);
    const { code, stderr } = await home.svc([...command.split(' '), ...args], {
      env: { NODE_OPTIONS: `--import ${report}` },
    });
    assert.is(code, 0, stderr);
    const { files, builtin } = JSON.parse(stderr.trimEnd().split('\n').at(-1) ?? '') as {
      files: string[];
      builtin: string[];
    };
    const ours = files.filter((url) => url.startsWith('file:')).map((url) => fileURLToPath(url));
    assert.equal(ours, [PROGRAM]);
    assert.equal(
      SLOW.filter((name) => builtin.includes(name)),
      needs,
    );
    const most = needs.length === 0 ? BUILTINS_MAX.alone : BUILTINS_MAX.asking;
    assert.ok(builtin.length <= most, builtin.join(' '));
    const { size } = statSync(
      join(dirname(PROGRAM), 'cli', 'quick', `${command.replace(' ', '-')}.js`),
    );
    assert.ok(size <= kib * 1024, `${size} bytes`);
  });
}

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
