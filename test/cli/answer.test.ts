import * as assert from 'uvu/assert';
import { completed, output, run, suiteWithDaemon } from './fake-daemon.ts';

/** Which text is the answer, where the history keeps another, less, or very much of it. */
const test = suiteWithDaemon('the answer of svc run');

test('the answer comes from the events, whatever the record keeps', async ({ home, daemon }) => {
  for (const kept of ['w<redacted> and w<redacted>', '', 'w1']) {
    for (const recovery of ['resume', 'restart'] as const) {
      daemon.on('run.start', ({ event, result }) => {
        event({ run: { ...run, recovery } });
        event(output('w1'));
        event(output(' and w2', 3));
        result({ ...completed(kept), recovery });
      });
      for (const args of [[], ['--no-stream'], ['--json']]) {
        const { code, stdout } = await home.svc(['run', 'p', ...args]);
        const answer = args.includes('--json') ? JSON.parse(stdout).output : stdout.trimEnd();
        assert.equal([code, answer], [0, 'w1 and w2'], `${recovery} ${args}`);
      }
    }
  }
});

test('without output events the answer comes from the record', async ({ home, daemon }) => {
  daemon.on('run.start', ({ event, result }) => {
    event({ run });
    result(completed('kept'));
  });
  for (const args of [[], ['--no-stream']])
    assert.is((await home.svc(['run', 'p', ...args])).stdout, 'kept\n');
  assert.is(JSON.parse((await home.svc(['run', 'p', '--json'])).stdout).output, 'kept');
});

test('an attempt that counts no more is no part of it', async ({ home, daemon }) => {
  daemon.on('run.start', ({ event, result }) => {
    event({ run });
    event(output('first try'));
    event({ seq: 3, type: 'run.started', data: { attempt: 2, resumes: false } });
    event(output('second', 4));
    result(completed(''));
  });
  assert.is(JSON.parse((await home.svc(['run', 'p', '--json'])).stdout).output, 'second');
});

test('attach prints the whole answer; with --from only the output since that event', async ({
  home,
  daemon,
}) => {
  daemon.on('run.follow', ({ params, event, result }) => {
    if (params.from_seq === 0) event(output('half'));
    event(output(' and half', 3));
    result(completed('h*** and h***'));
  });
  for (const [args, plain, json] of [
    [[], 'half and half\n', 'half and half'],
    [['--from', '3'], ' and half\n', 'h*** and h***'],
  ] as const) {
    assert.is((await home.svc(['runs', 'attach', 'run_1', ...args])).stdout, plain);
    assert.is(
      JSON.parse((await home.svc(['runs', 'attach', 'run_1', ...args, '--json'])).stdout).output,
      json,
    );
  }
});

test('an answer without text prints nothing, and a message says what it is instead', async ({
  home,
  daemon,
}) => {
  const call = (name: string) => ({ type: 'tool_call', id: name, name, arguments: '{}' });
  for (const [parts, said] of [
    [[call('look')], /^error: The model called the tool look, .*\nhint: .*svc runs show run_1$/m],
    [[call('look'), call('wait')], /the tools look, wait,/],
    [[{ type: 'refusal', text: 'No.' }], /refused to answer/],
    [[{ type: 'reasoning', text: 'Hm.' }], /only its reasoning/],
  ] as const) {
    const record = { ...completed(''), output_parts: parts };
    daemon.on('run.start', ({ event, result }) => {
      event({ run });
      result(record);
    });
    daemon.on('run.follow', ({ result }) => result(record));
    for (const args of [
      ['run', 'p'],
      ['runs', 'attach', 'run_1'],
    ]) {
      const { code, stdout, stderr } = await home.svc(args);
      assert.equal([code, stdout], [10, ''], String(args));
      assert.match(stderr, said);
    }
  }
  daemon.on('run.start', ({ event, result }) => {
    event({ run });
    event(output('I look.'));
    result({ ...completed('I look.'), output_parts: [call('look')] });
  });
  const { stdout, stderr } = await home.svc(['run', 'p']);
  assert.is(stdout, 'I look.\n');
  assert.not.match(stderr, 'called');
});

test('one that is longer than a line to the daemon may be is printed, and its run has ended well', async ({
  home,
  daemon,
}) => {
  const piece = 'x'.repeat(1024 * 1024);
  daemon.on('run.start', ({ event, result }) => {
    event({ run });
    for (let seq = 2; seq < 20; seq += 1) event(output(piece, seq));
    result(completed(piece.repeat(18)));
  });
  const { code, stdout, stderr } = await home.svc(['run', 'p']);
  assert.equal([code, stdout.length, stderr], [0, 18 * piece.length + 1, '']);
});

test.run();
