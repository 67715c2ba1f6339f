import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../src/errors.ts';
import { defaultLimits, type Limits } from '../../src/limits.ts';
import { cutLine } from '../../src/logs/cut-line.ts';
import { createLog, type DaemonLog } from '../../src/logs/log.ts';
import { readTail } from '../../src/logs/tail.ts';

const test = suite<{ folder: string }>('log');

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), 'svc-logs-'));
});

test.after.each(({ folder }) => {
  rmSync(folder, { recursive: true, force: true });
});

function open(folder: string, limits: Partial<Limits> = {}): DaemonLog {
  return createLog({
    folder,
    level: 'debug',
    limits: { ...defaultLimits, ...limits },
    boot_id: 'boot_1',
    stdout: 'none',
  });
}

async function written(folder: string): Promise<Record<string, unknown>[]> {
  return (await readTail(folder, { lines: 1000 })).map((line) => JSON.parse(line));
}

test('a line has its level as a word, its time, its boot and its ids', async ({ folder }) => {
  const { log, close } = open(folder);
  log.info({ run_id: 'run_1', seq: 7 }, 'started');
  log.trace('below the level');
  close();
  const [line, ...others] = await written(folder);
  assert.equal(others, []);
  assert.match(String(line?.time), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.equal(
    { ...line, time: '' },
    { level: 'info', time: '', boot_id: 'boot_1', run_id: 'run_1', seq: 7, msg: 'started' },
  );
});

test('a field cannot replace one that every line has', async ({ folder }) => {
  const { log, close } = open(folder);
  log.warn({ level: 'info', time: 0, boot_id: 'other' }, 'forged');
  close();
  const [line] = await written(folder);
  assert.is(line?.level, 'warn');
  assert.is(line?.boot_id, 'boot_1');
  assert.is(line?.boot_id_, 'other');
});

test('secrets are hidden, by field name and by form', async ({ folder }) => {
  const { log, close } = open(folder);
  const secret = 'hunter2hunter2';
  log.info(
    {
      token: secret,
      api_key: secret,
      headers: { Authorization: `Bearer ${secret}`, cookie: secret, 'x-api-key': secret },
      deep: [{ access_token: secret }],
      password: secret,
    },
    'a',
  );
  log.info(
    {
      header: `authorization: Bearer ${secret}`,
      head: `GET / HTTP/1.1\r\nx-api-key: ${secret}`,
      shown: `{ 'x-api-key': '${secret}' }`,
      url: `https://me:${secret}@host/v1?key=${secret}&x=1`,
    },
    `said Bearer ${secret}`,
  );
  log.error(
    {
      err: new SvcError('provider_failed', 'x', {
        cause: Object.assign(new Error(`sk-${secret}`), { responseHeaders: { 'x-key': secret } }),
      }),
    },
    'failed',
  );
  log.error(new Error(`Bearer ${secret}`));
  close();
  const text = readFileSync(join(folder, 'svc.log'), 'utf8');
  assert.not.match(text, secret);
  assert.is((await written(folder)).length, 4);
});

test('a field that only looks like a secret is kept', async ({ folder }) => {
  const { log, close } = open(folder);
  const fields = {
    token_ids: [1, 2],
    input_tokens: 3,
    idempotency_key: 'k',
    key_env: 'OPENAI_API_KEY',
    task: 'risk-assessment',
  };
  log.info(fields, 'kept');
  close();
  const [line] = await written(folder);
  assert.equal(Object.fromEntries(Object.keys(fields).map((name) => [name, line?.[name]])), fields);
});

test('an error has type, code, message, stack and cause, and no other property', async ({
  folder,
}) => {
  const { log, close } = open(folder);
  const cause = Object.assign(new TypeError('inner'), { code: 'EPIPE', prompt: 'private' });
  log.error({ err: new Error('outer', { cause }) }, 'went wrong');
  close();
  const [line] = await written(folder);
  const err = line?.err as Record<string, Record<string, unknown>>;
  assert.is(err.message as unknown, 'outer');
  assert.equal(
    { ...err.cause, stack: '' },
    { type: 'TypeError', code: 'EPIPE', message: 'inner', stack: '' },
  );
});

test('any value is logged as a line of JSON', async ({ folder }) => {
  const { log, close } = open(folder);
  const circle: Record<string, unknown> = {
    big: 10n,
    when: new Date(Number.NaN),
    bytes: Buffer.alloc(9),
    call: () => {},
    lone: '\ud800',
    line: 'a\nb\u2028',
  };
  circle.self = circle;
  const trap = Object.defineProperty({}, 'bad', {
    enumerable: true,
    get: () => assert.unreachable(),
  });
  for (const fields of [circle, { trap }, { globalThis }, [1, 2], new Map([[1, 2]])])
    log.info(fields as object, 'odd');
  close();
  const lines = await written(folder);
  assert.is(lines.length, 5);
  assert.ok(lines.every((line) => line.msg === 'odd'));
});

test('a line that is too long is cut, says so, and is still JSON with its ids', async ({
  folder,
}) => {
  const { log, close } = open(folder, { log_line_bytes: 512 });
  log.info(
    {
      big: 'é"\n'.repeat(10_000),
      run_id: 'run_1',
      seq: 3,
      list: Array.from({ length: 90 }, () => 'x'.repeat(20)),
    },
    'm'.repeat(300),
  );
  close();
  const [line] = await written(folder);
  assert.ok(readFileSync(join(folder, 'svc.log')).length <= 512);
  assert.ok(Number(line?.cut_bytes) > 10_000);
  assert.is(line?.run_id, 'run_1');
  assert.is(line?.msg, 'm'.repeat(300));
  assert.match(String(line?.big), /…$/);
  assert.is(line?.list, undefined);
});

test('a line is cut to any bound without splitting a character', () => {
  const line = JSON.stringify({ level: 'info', msg: '😀"\\\u0001'.repeat(200), other: { a: 1 } });
  for (let max = 64; max < 1500; max += 1) {
    const cut = cutLine(line, max);
    assert.ok(Buffer.byteLength(cut) <= max);
    assert.is(JSON.parse(cut).level, 'info');
  }
  assert.is(cutLine(line, 10_000), line);
});

test('a text is cut to no less than sixteen bytes; a shorter one is left out', () => {
  const line = JSON.stringify({ msg: 'x'.repeat(101) });
  // 24 bytes are taken by what is around the text.
  assert.is(cutLine(line, 40), `{"cut_bytes":111,"msg":"${'x'.repeat(11)}…"}`);
  assert.is(cutLine(line, 39), '{"cut_bytes":111}');
});

test('a follower gets the same lines as the file', async ({ folder }) => {
  const { log, hub, close } = open(folder);
  const follower = hub.follow(() => true);
  log.info('one');
  log.child({ run_id: 'run_2' }).warn('two');
  close();
  assert.equal(
    (await follower.next())?.lines,
    readFileSync(join(folder, 'svc.log'), 'utf8').trim().split('\n'),
  );
  assert.is(await follower.next(), null);
});

test('a full log is bounded on disk', async ({ folder }) => {
  const { log, close } = open(folder, { log_file_bytes: 4096, log_files: 3 });
  for (let index = 0; index < 1000; index += 1) log.info({ index }, 'x'.repeat(index % 5000));
  close();
  const { statSync, readdirSync } = await import('node:fs');
  const sizes = readdirSync(folder).map((name) => statSync(join(folder, name)).size);
  assert.ok(sizes.length === 3 && sizes.every((size) => size <= 4096), sizes.join(' '));
  assert.is((await written(folder)).at(-1)?.index, 999);
});

test('the last line before a process is killed is on disk', async ({ folder }) => {
  const program = `
    import { createLog } from ${JSON.stringify(new URL('../../src/logs/log.ts', import.meta.url).href)};
    import { defaultLimits } from ${JSON.stringify(new URL('../../src/limits.ts', import.meta.url).href)};
    const { log } = createLog({ folder: process.env.FOLDER, level: 'info', limits: defaultLimits, boot_id: 'b', stdout: 'none' });
    for (let n = 1; n <= 500; n++) log.info({ n }, 'line');
    process.kill(process.pid, 'SIGKILL');`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    env: { ...process.env, FOLDER: folder },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const signal = await new Promise((resolve) => child.once('exit', (_, signal) => resolve(signal)));
  assert.is(signal, 'SIGKILL');
  assert.is((await written(folder)).at(-1)?.n, 500);
});

test('the patterns of the history are hidden anywhere in a line, except in its ids', async ({
  folder,
}) => {
  const log = createLog({
    folder,
    level: 'debug',
    limits: defaultLimits,
    boot_id: 'boot_abcdefgh',
    stdout: 'none',
    redact: ['org-\\w+', '[a-h]{8}'],
  });
  const cause = new Error('upstream says: no such organization org-1234');
  const failure = new SvcError('provider_failed', 'The provider refused org-1234.', { cause });
  log.log.warn(
    { run_id: 'run_abcdefgh', err: failure, more: { texts: ['org-1234'] } },
    failure.message,
  );
  log.close();
  const [line] = await written(folder);
  assert.not.match(JSON.stringify(line), /org-1234/);
  assert.is(line?.msg, 'The provider refused [redacted].');
  const err = line?.err as { code: string; stack: string } | undefined;
  assert.equal(
    [line?.boot_id, line?.run_id, err?.code],
    ['boot_abcdefgh', 'run_abcdefgh', 'provider_failed'],
  );
  assert.match(err?.stack ?? '', /\[redacted\]/);
});

test.run();
