import {
  type ChildProcess,
  type ChildProcessWithoutNullStreams,
  type SpawnOptions,
  spawn,
} from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { waitFor } from '../helpers/wait.ts';

/** Runs a log in another process, on its stdout. */
const test = suite<{ folder: string }>('log on stdout');

const LINES = 5000;
const FOLLOW_LINES = 16;

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), 'svc-logs-'));
});

const children: ChildProcess[] = [];

test.after.each(({ folder }) => {
  for (const child of children.splice(0)) child.kill();
  rmSync(folder, { recursive: true, force: true });
});

/**
 * Logs all lines at once, prints the buffered bytes on stderr, and logs one more line on a
 * signal.
 */
function start(folder: string, stdout: number | 'pipe' = 'pipe'): ChildProcessWithoutNullStreams {
  const program = `
    import { createLog } from ${JSON.stringify(new URL('../../src/logs/log.ts', import.meta.url).href)};
    import { defaultLimits } from ${JSON.stringify(new URL('../../src/limits.ts', import.meta.url).href)};
    const limits = { ...defaultLimits, log_follow_lines: ${FOLLOW_LINES} };
    const { log } = createLog({ folder: process.env.FOLDER, level: 'info', limits, boot_id: 'b', stdout: 'json' });
    for (let n = 1; n <= ${LINES}; n++) log.info({ n }, 'x'.repeat(200));
    process.stderr.write(String(process.stdout.writableLength) + '\\n');
    process.stdin.once('data', () => {
      log.info({ n: ${LINES + 1} }, 'last');
      process.stdin.destroy();
    });`;
  const argv = ['--input-type=module', '-e', program];
  const options: SpawnOptions = {
    env: { ...process.env, FOLDER: folder },
    stdio: ['pipe', stdout, 'pipe'],
  };
  const child = spawn(process.execPath, argv, options) as ChildProcessWithoutNullStreams;
  children.push(child);
  return child;
}

function collect(stream: NodeJS.ReadableStream): () => string {
  let text = '';
  stream.setEncoding('utf8').on('data', (chunk) => {
    text += chunk;
  });
  return () => text;
}

test('a stdout without a reader buffers up to its bound, and then reports the missed lines', async ({
  folder,
}) => {
  const child = start(folder);
  const ended = new Promise((resolve) => child.once('close', resolve));
  const told = collect(child.stderr);
  const held = Number(await waitFor('all to be logged', () => told().endsWith('\n') && told()));
  assert.ok(held > 0 && held <= FOLLOW_LINES * 1024, `${held} bytes wait`);
  const printed = collect(child.stdout);
  await waitFor('the count of missed lines', () => /"missed":\d+.*\n/.test(printed()));
  child.stdin.write('go on\n');
  await ended;
  const lines = printed()
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  const [gap, last] = lines.splice(-2);
  assert.equal(
    lines.map(({ n }) => n),
    lines.map((_, index) => index + 1),
    'what is there before the gap is whole',
  );
  assert.equal([gap.level, gap.missed, last.n], ['warn', LINES - lines.length, LINES + 1]);
  assert.is(
    readFileSync(join(folder, 'svc.log'), 'utf8').trim().split('\n').length,
    LINES + 1,
    'the file has all',
  );
});

test('a stdout that takes each line at once misses none, however many come together', async ({
  folder,
}) => {
  const path = join(folder, 'stdout');
  const file = openSync(path, 'w');
  const child = start(folder, file);
  const ended = new Promise((resolve) => child.once('close', resolve));
  child.stdin.end('go on\n');
  await ended;
  closeSync(file);
  assert.is(readFileSync(path, 'utf8'), readFileSync(join(folder, 'svc.log'), 'utf8'));
});

test('a line for a person is one line, whatever was logged', async ({ folder }) => {
  const program = `
    import { createLog } from ${JSON.stringify(new URL('../../src/logs/log.ts', import.meta.url).href)};
    import { defaultLimits } from ${JSON.stringify(new URL('../../src/limits.ts', import.meta.url).href)};
    const { log } = createLog({ folder: process.env.FOLDER, level: 'info', limits: defaultLimits, boot_id: 'b', stdout: 'pretty' });
    const evil = 'x\\n12:00:00.000 ERROR forged\\u001b[2J\\u009b\\u202e';
    log.warn({ name: evil, deep: { [evil]: evil }, err: new Error(evil) }, evil);`;
  const options: SpawnOptions = {
    env: { ...process.env, FOLDER: folder, NO_COLOR: '1' },
    stdio: ['ignore', 'pipe', 'inherit'],
  };
  const child = spawn(
    process.execPath,
    ['--input-type=module', '-e', program],
    options,
  ) as ChildProcessWithoutNullStreams;
  children.push(child);
  const printed = collect(child.stdout);
  await new Promise((resolve) => child.once('close', resolve));
  assert.match(printed(), /WARN.*forged/);
  assert.not.match(printed().replaceAll('\n', ''), /[\p{Cc}\p{Cf}]/u);
  assert.not.match(printed(), /^\s*12:00:00\.000 ERROR/m);
});

test.run();
