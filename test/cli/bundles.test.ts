import { statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as assert from 'uvu/assert';
import { PROGRAM } from '../helpers/svc.ts';
import { completed, run, suiteWithDaemon } from './fake-daemon.ts';

/** What a command loads decides how fast it is, on any machine. */
const test = suiteWithDaemon('bundles of commands');

/** Each command with the size that its bundle may have, in KiB. */
const COMMANDS: Record<string, { args: string[]; kib: number; needs?: string[] }> = {
  version: { args: [], kib: 34 },
  status: { args: [], kib: 78, needs: ['net', 'stream'] },
  health: { args: ['--source', 'socket'], kib: 57, needs: ['net', 'stream'] },
  logs: { args: ['--tail', '5'], kib: 88 },
  run: { args: ['hi', '--no-start'], kib: 170, needs: ['net', 'stream'] },
};
/** Modules of Node that take a millisecond or more to load. */
const SLOW = [
  ...['http', 'https', 'http2', 'tls', 'child_process', 'worker_threads', 'inspector'],
  ...['net', 'stream', 'crypto', 'perf_hooks', 'timers/promises', 'fs/promises'],
];

/** Prints what the process has loaded, as the last line of stderr. */
const REPORT = `
  import { registerHooks } from 'node:module';
  const files = [];
  registerHooks({ load: (url, context, next) => (files.push(url), next(url, context)) });
  process.on('exit', () => {
    const builtin = process.moduleLoadList.map((name) => name.replace(/^NativeModule /, ''));
    console.error(JSON.stringify({ files, builtin }));
  });`;

for (const [command, { args, kib, needs = [] }] of Object.entries(COMMANDS)) {
  test(`svc ${command} is one file, and loads no slow module of Node`, async ({ home, daemon }) => {
    daemon.on('run.start', ({ event, result }) => {
      event({ run });
      result(completed('hello'));
    });
    const report = join(home.folder, 'report.mjs');
    writeFileSync(report, REPORT);
    const { code, stderr } = await home.svc([command, ...args], {
      env: { NODE_OPTIONS: `--import ${report}` },
    });
    assert.is(code, 0, stderr);
    const { files, builtin } = JSON.parse(stderr.trimEnd().split('\n').at(-1) ?? '') as {
      files: string[];
      builtin: string[];
    };
    const bundle = join(dirname(PROGRAM), 'cli', 'quick', `${command}.js`);
    const ours = files.filter((url) => url.startsWith('file:')).map((url) => fileURLToPath(url));
    assert.equal(ours, [PROGRAM, bundle]);
    assert.equal(
      SLOW.filter((name) => builtin.includes(name)),
      needs,
    );
    const { size } = statSync(bundle);
    assert.ok(size <= kib * 1024, `${size} bytes`);
  });
}

test.run();
