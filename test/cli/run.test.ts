import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { SvcError } from '../../src/errors.ts';
import { PROGRAM } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import {
  completed,
  type FakeDaemon,
  output,
  type Reply,
  run,
  suiteWithDaemon,
} from './fake-daemon.ts';

const test = suiteWithDaemon('svc run');

const answering =
  (...pieces: string[]) =>
  ({ event, result }: Reply) => {
    event({ run });
    for (const piece of pieces) event(output(piece));
    result(completed(pieces.join('')));
  };
const ending =
  (record: object, ...pieces: string[]) =>
  ({ event, result }: Reply) => {
    event({ run });
    for (const piece of pieces) event(output(piece));
    result({ ...run, output: pieces.join(''), ...record });
  };
const promptOf = (daemon: FakeDaemon) =>
  daemon.asked.find(({ method }) => method === 'run.start')?.params.prompt;

test('the answer alone is on stdout, with one line break at its end', async ({ home, daemon }) => {
  for (const [pieces, expected] of [
    [['Hel', 'lo'], 'Hello\n'],
    [['a\n', '\nb\n', '\n\n'], 'a\n\nb\n'],
    [['\n x'], '\n x\n'],
    [['käse', ' 🧀'], 'käse 🧀\n'],
  ] as const) {
    daemon.on('run.start', answering(...pieces));
    const outcome = await home.svc(['run', 'p']);
    assert.equal(outcome, { code: 0, signal: null, stdout: expected, stderr: '' });
  }
});

test('an answer without text is no success', async ({ home, daemon }) => {
  daemon.on('run.start', answering());
  const { code, stdout, stderr } = await home.svc(['run', 'p']);
  assert.equal([code, stdout], [10, '\n']);
  assert.match(
    stderr,
    /^error: local answered without any text .*\nhint: .*svc runs show run_1\n$/,
  );
});

test('output comes while the run goes on', async ({ home, daemon }) => {
  let finish = () => {};
  daemon.on('run.start', ({ event, result }) => {
    event({ run });
    event(output('first'));
    finish = () => {
      event(output(', last', 3));
      result(completed('first, last'));
    };
  });
  const { ended, stdout } = home.spawn(['run', 'p']);
  await waitFor('the first piece is printed', () => stdout() === 'first');
  finish();
  assert.is((await ended).stdout, 'first, last\n');
});

test('--no-stream prints nothing before the end', async ({ home, daemon }) => {
  let finish = () => {};
  daemon.on('run.start', ({ event, result }) => {
    event({ run });
    event(output('first'));
    finish = () => {
      event(output(', last', 3));
      result(completed('first, last'));
    };
  });
  const { ended, stdout } = home.spawn(['run', 'p', '--no-stream']);
  await waitFor('the run is accepted', () => promptOf(daemon) !== undefined);
  assert.is(stdout(), '');
  finish();
  assert.is((await ended).stdout, 'first, last\n');
});

test('--json prints the record of the run, and nothing on stderr', async ({ home, daemon }) => {
  daemon.on('run.start', answering('yes'));
  const { code, stdout, stderr } = await home.svc(['run', 'p', '--json']);
  assert.is(code, 0);
  assert.is(stderr, '');
  assert.equal(JSON.parse(stdout), completed('yes'));
});

test('--detach prints the id and asks for no stream', async ({ home, daemon }) => {
  daemon.on('run.start', ({ params, result }) => {
    assert.is(params.stream, undefined);
    result(run);
  });
  assert.equal(await home.svc(['run', 'p', '--detach']), {
    code: 0,
    signal: null,
    stdout: 'run_1\n',
    stderr: '',
  });
  assert.equal(JSON.parse((await home.svc(['run', 'p', '--detach', '--json'])).stdout), run);
});

test('each end of a run has its exit code, text so far on stdout, error on stderr', async ({
  home,
  daemon,
}) => {
  const failed = (
    code:
      | 'provider_failed'
      | 'provider_unauthorised'
      | 'model_invalid'
      | 'stream_truncated'
      | 'busy',
  ) => ({ state: 'failed', error: new SvcError(code).body() });
  for (const [record, expected] of [
    [failed('provider_failed'), 9],
    [failed('provider_unauthorised'), 5],
    [failed('model_invalid'), 7],
    [failed('stream_truncated'), 10],
    [failed('busy'), 8],
    [{ state: 'failed', error: null }, 9],
    [{ state: 'interrupted', error: new SvcError('engine_crashed').body() }, 10],
    [{ state: 'timed_out', error: null }, 124],
    [{ state: 'cancelled', error: new SvcError('run_cancelled').body() }, 130],
  ] as const) {
    daemon.on('run.start', ending(record, 'so far'));
    const plain = await home.svc(['run', 'p']);
    assert.is(plain.code, expected, JSON.stringify(record));
    assert.is(plain.stdout, 'so far\n');
    assert.match(plain.stderr, /^error: .+\nhint: svc|^error: .+\nhint: .+\n$/);
    const json = await home.svc(['run', 'p', '--json']);
    assert.is(json.code, expected);
    assert.is(JSON.parse(json.stdout).output, 'so far');
    assert.type(JSON.parse(json.stderr).error.code, 'string');
  }
});

test('after a disconnect the answer continues after the last event, and is complete', async ({
  home,
  daemon,
}) => {
  daemon.on('run.start', ({ event, hangUp }) => {
    event({ run });
    event({ ...output('half an'), seq: 40 });
    hangUp();
  });
  daemon.on('run.follow', ({ params, event, result }) => {
    assert.equal(params, { id: 'run_1', from_seq: 41 });
    event({ ...output(' answer'), seq: 44 });
    result(completed('half an answer'));
  });
  const { code, stdout, stderr } = await home.svc(['run', 'p']);
  assert.is(code, 0);
  assert.is(stdout, 'half an answer\n');
  assert.is(stderr, 'The daemon is gone; waiting for it to come back.\n');
});

test('a start whose answer was lost is sent again with the same key', async ({ home, daemon }) => {
  let starts = 0;
  daemon.on('run.start', (reply) => {
    starts += 1;
    if (starts === 1) reply.hangUp();
    else answering('once')(reply);
  });
  assert.is((await home.svc(['run', 'p'])).stdout, 'once\n');
  const keys = daemon.asked
    .filter(({ method }) => method === 'run.start')
    .map(({ params }) => params.idempotency_key);
  assert.is(keys.length, 2);
  assert.is(new Set(keys).size, 1);
});

test('a daemon that disconnects repeatedly without progress is abandoned, with the text so far and exit 10', async ({
  home,
  daemon,
}) => {
  daemon.on('run.start', ({ event, hangUp }) => {
    event({ run });
    event({ ...output('half an'), seq: 40 });
    hangUp();
  });
  daemon.on('run.follow', ({ hangUp }) => hangUp());
  const { code, stdout, stderr } = await home.svc(['run', 'p']);
  assert.is(code, 10);
  assert.is(stdout, 'half an\n');
  assert.match(stderr, /\nerror: .+\nhint: .+svc runs attach run_1\n$/);
});

test('an answer that may start again is printed at its end only', async ({ home, daemon }) => {
  daemon.on('run.start', ({ event, result }) => {
    event({ run: { ...run, recovery: 'restart' } });
    event({ ...output('first try'), seq: 40 });
    event({ seq: 41, type: 'run.started', data: { attempt: 2, resumes: false } });
    event({ ...output('second'), seq: 42 });
    event({ seq: 43, type: 'run.turn_completed', data: { attempt: 2 } });
    event({ seq: 44, type: 'run.started', data: { attempt: 3, resumes: false, turn: 1 } });
    event({ ...output('thi'), seq: 45 });
    event({ seq: 46, type: 'run.started', data: { attempt: 4, resumes: false, turn: 1 } });
    event({ ...output('third'), seq: 47 });
    result({ ...completed('third'), recovery: 'restart' });
  });
  const { stdout, stderr } = await home.svc(['run', 'p', '--recovery', 'restart']);
  assert.is(stdout, 'third\n');
  assert.is(stderr, 'The answer starts again.\n'.repeat(2));
});

test('a refusal before any output leaves stdout empty', async ({ home, daemon }) => {
  for (const [code, exit] of [
    ['provider_unknown', 7],
    ['cloud_unconfigured', 7],
    ['usage', 2],
    ['busy', 8],
    ['not_ready', 4],
    ['store_full', 4],
  ] as const) {
    daemon.on('run.start', ({ error }) => error(new SvcError(code).body()));
    const outcome = await home.svc(['run', 'p']);
    assert.is(outcome.code, exit, code);
    assert.is(outcome.stdout, '');
    assert.match(outcome.stderr, /^error: /);
  }
});

test('the prompt is what was written, to the letter', async ({ home, daemon }) => {
  daemon.on('run.start', answering('ok'));
  for (const [args, stdin, expected] of [
    [['007'], '', '007'],
    [['1e3'], '', '1e3'],
    [['true'], '', 'true'],
    [['--', '-5 + 3'], '', '-5 + 3'],
    [['--', '--help'], '', '--help'],
    [['a', '--'], '', 'a'],
    [['a'], 'b\n', 'a\n\nb'],
    [['a'], 'b\r\nc\r\n', 'a\n\nb\r\nc'],
    [['-'], 'b\n\n', 'b\n'],
    [[], 'only stdin', 'only stdin'],
    [[''], 'only stdin', 'only stdin'],
    [['  spaced  '], '', '  spaced  '],
    [['a\u{fffd}b'], '', 'a\u{fffd}b'],
  ] as const) {
    daemon.asked.length = 0;
    const { code, stderr } = await home.svc(['run', ...args], { stdin });
    assert.is(code, 0, stderr);
    assert.is(promptOf(daemon), expected);
  }
});

test('no prompt, and no text, are refused before anything is asked', async ({ home, daemon }) => {
  for (const [args, stdin, code] of [
    [[], '', 'prompt_missing'],
    [[''], '', 'prompt_missing'],
    [[' \n'], '', 'prompt_missing'],
    [['-'], '\n', 'prompt_missing'],
    [['a'], Buffer.from([0x61, 0xff, 0xfe]), 'prompt_not_text'],
    [['a'], 'b\0c', 'prompt_not_text'],
  ] as const) {
    const outcome = await home.svc(['run', ...args, '--json'], { stdin });
    assert.is(outcome.code, 2);
    assert.is(JSON.parse(outcome.stderr).error.code, code);
    assert.is(outcome.stdout, '');
  }
  assert.equal(daemon.asked, []);
});

test('an argument that is not UTF-8 is refused, not sent with its bytes replaced', async ({
  home,
  daemon,
}) => {
  if (process.platform !== 'linux') return;
  for (const flags of ['', '--system "$text" p']) {
    const line = `text=$(printf 'a\\377b'); exec "$0" "$1" run ${flags === '' ? '"$text"' : flags} --json`;
    const { status, stderr } = spawnSync('sh', ['-c', line, process.execPath, PROGRAM], {
      env: home.env,
      encoding: 'utf8',
    });
    assert.is(status, 2);
    assert.is(JSON.parse(stderr).error.code, 'prompt_not_text');
  }
  assert.equal(daemon.asked, []);
});

test('an endless prompt is refused when it is too long, not when it ends', async ({
  home,
  daemon,
}) => {
  const { child, ended } = home.spawn(['run', '-', '--json'], { stdin: null });
  const block = Buffer.alloc(1024 * 1024, 'x');
  const feed = () => {
    while (!child.killed && child.stdin?.writable && child.stdin.write(block));
  };
  child.stdin?.on('drain', feed);
  feed();
  const { code, stderr } = await ended;
  assert.is(code, 2);
  assert.is(JSON.parse(stderr).error.code, 'prompt_too_large');
  assert.equal(daemon.asked, []);
});

test('flags reach the daemon as what they are', async ({ home, daemon }) => {
  daemon.on('run.start', answering('ok'));
  const args = [
    'run',
    'p',
    '-p',
    'ollama',
    '-m',
    'ollama/x',
    '--system=-s',
    '--max-tokens',
    '5',
    '--temperature',
    '0',
    '--seed',
    '007',
    '--timeout',
    '1.5',
    '--cloud',
  ];
  assert.is((await home.svc(args)).code, 0);
  const { stream, idempotency_key, client, ...params } =
    daemon.asked.find(({ method }) => method === 'run.start')?.params ?? {};
  assert.equal(params, {
    provider: 'ollama',
    model: 'ollama/x',
    system: '-s',
    max_tokens: 5,
    temperature: 0,
    seed: 7,
    timeout_ms: 1500,
    cloud: true,
    prompt: 'p',
    origin: process.cwd(),
  });
  assert.match(String(idempotency_key), /^svc-run-[0-9a-f-]{36}$/);
  assert.is(client, `command line ${process.pid}`);
});

test('a model that is a path from here is sent as one from anywhere', async ({ home, daemon }) => {
  daemon.on('run.start', answering('ok'));
  await home.svc(['run', 'p', '--model', './some/tiny.gguf']);
  await home.svc(['run', 'p', '--model', 'not-here.gguf']);
  const models = daemon.asked
    .filter(({ method }) => method === 'run.start')
    .map(({ params }) => params.model);
  assert.equal(models, [join(process.cwd(), 'some/tiny.gguf'), 'not-here.gguf']);
});

test('Ctrl-C cancels the run, waits for its end and exits 130; a second one does not wait', async ({
  home,
  daemon,
}) => {
  for (const times of [1, 2]) {
    let end = () => {};
    daemon.asked.length = 0;
    daemon.on('run.start', ({ event, result }) => {
      event({ run });
      event(output('so far'));
      end = () => result({ ...run, state: 'cancelled', output: 'so far, and more' });
    });
    const { child, ended, stdout, stderr } = home.spawn(['run', 'p']);
    await waitFor('there is output', () => stdout() === 'so far');
    child.kill('SIGINT');
    await waitFor(
      'the notice is printed',
      () => stderr() === 'Cancelling; Ctrl-C again leaves at once.\n',
    );
    const cancel = await waitFor('the run is cancelled', () =>
      daemon.asked.find(({ method }) => method === 'run.cancel'),
    );
    assert.equal(cancel.params, { id: 'run_1' });
    assert.is(child.exitCode, null);
    if (times === 2) child.kill('SIGINT');
    else end();
    const { code, stdout: printed } = await ended;
    assert.is(code, 130);
    if (times === 1) assert.is(printed, 'so far\n');
  }
});

test('a reader who leaves cancels the run, quietly', async ({ home, daemon }) => {
  let end = () => {};
  const pieces = setInterval(() => {}, 1000);
  daemon.on('run.start', ({ event, result }) => {
    event({ run });
    let more = true;
    const speak = () => {
      event(output('x'.repeat(1000)));
      if (more) setImmediate(speak);
    };
    speak();
    end = () => {
      more = false;
      result({ ...run, state: 'cancelled' });
    };
  });
  daemon.on('run.cancel', ({ result }) => {
    end();
    result({ ...run, state: 'cancelled' });
  });
  const { child, ended, stderr } = home.spawn(['run', 'p']);
  child.stdout?.once('data', () => child.stdout?.destroy());
  const { code } = await ended;
  clearInterval(pieces);
  assert.is(code, 0);
  assert.is(stderr(), '');
  assert.ok(daemon.asked.some(({ method }) => method === 'run.cancel'));
});

test('the built-in model is introduced once per home, on stderr, and never with --json', async ({
  home,
  daemon,
}) => {
  const built_in = { ...run, model: 'svc-mini' };
  daemon.on('run.start', ({ event, result }) => {
    event({ run: built_in });
    result({ ...built_in, state: 'completed', output: 'hi' });
  });
  assert.is((await home.svc(['run', 'p', '--json'])).stderr, '');
  assert.match((await home.svc(['run', 'p'])).stderr, /^This is the built-in model.*\n$/);
  assert.is((await home.svc(['run', 'p'])).stderr, '');
  assert.ok(existsSync(home.paths.cache));
});

const asked = (daemon: FakeDaemon) => daemon.asked.map(({ method }) => method);

test('a prompt takes one connection and one request', async ({ home, daemon }) => {
  daemon.on('run.start', answering('yes'));
  assert.is((await home.svc(['run', 'p'])).stdout, 'yes\n');
  assert.equal(asked(daemon), ['run.start']);
});

test('a daemon that is not ready is awaited, but not with --no-start', async ({ home, daemon }) => {
  const refusal = { code: 'not_ready', message: 'The daemon is starting.' };
  let starts = 0;
  daemon.on('run.start', (reply) => {
    starts += 1;
    if (starts < 3) reply.error(refusal);
    else answering('yes')(reply);
  });
  const refused = await home.svc(['run', 'p', '--no-start']);
  assert.is(refused.code, 4);
  assert.match(refused.stderr, 'error: The daemon is starting.');
  assert.equal(asked(daemon), ['run.start']);
  const { code, stdout } = await home.svc(['run', 'p', '--detach']);
  assert.equal([code, stdout], [0, 'run_1\n']);
  assert.equal(asked(daemon).slice(1), ['run.start', 'status', 'run.start']);
});

test('a silent daemon is asked for its health, and given up when that has no answer', async ({
  home,
  daemon,
}) => {
  daemon.on('run.start', () => {});
  daemon.on('health', () => {});
  const { code, stdout, stderr } = await home.svc(['run', 'p', '--json']);
  assert.equal([code, stdout, JSON.parse(stderr).error.code], [124, '', 'timed_out']);
  assert.equal(asked(daemon), ['run.start', 'health']);
});

test('--no-start refuses when no daemon runs', async ({ home, daemon }) => {
  await daemon.close();
  const { code, stdout, stderr } = await home.svc(['run', 'p', '--no-start']);
  assert.is(code, 3);
  assert.is(stdout, '');
  assert.match(stderr, /svc start/);
});

test.run();
