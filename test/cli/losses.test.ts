import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Home, makeHome } from '../helpers/svc.ts';
import { hasTerminal, onTerminal } from '../helpers/terminal.ts';
import { type FakeDaemon, output, run, startFakeDaemon, status } from './fake-daemon.ts';

/** The daemon is lost repeatedly while a run is followed. */
const test = suite<{ home: Home; daemon: FakeDaemon }>('a run whose daemon is lost repeatedly');

const GONE = 'The daemon is gone; waiting for it to come back.';

test.before.each(async (context) => {
  context.home = makeHome({ SVC_LIMIT_RECONNECT_MS: '500' });
  context.daemon = await startFakeDaemon(context.home);
});
test.after.each(async ({ home, daemon }) => {
  await daemon.close();
  await home.close();
});

/** Each connection sends one more event, then closes. */
function neverStay(daemon: FakeDaemon): void {
  let seq = 40;
  daemon.on('run.start', ({ event, hangUp }) => {
    event({ run });
    event(output('.', seq++));
    hangUp();
  });
  daemon.on('run.follow', ({ event, hangUp }) => {
    event(output('.', seq++));
    hangUp();
  });
}

test('is abandoned at its limit even with progress: one line, exit 10, and a hint', async ({
  home,
  daemon,
}) => {
  neverStay(daemon);
  for (const args of [
    ['run', 'p'],
    ['run', 'p', '--no-start'],
    ['runs', 'attach', 'run_1'],
  ]) {
    const { code, stdout, stderr } = await home.svc(args);
    assert.is(code, 10, stderr);
    assert.match(stdout, /^\.+\n$/);
    const [first, error, hint, ...rest] = stderr.split('\n');
    assert.is(first, GONE);
    assert.match(error ?? '', /^error: The daemon was lost \d+ times in \d+ s\.$/);
    assert.match(hint ?? '', /^hint: .+svc runs attach run_1$/);
    assert.equal(rest, ['']);
  }
});

test('is abandoned at --timeout if given', async ({ home, daemon }) => {
  neverStay(daemon);
  const { code, stderr } = await home.svc(['run', 'p', '--timeout', '0.2', '--json'], {
    env: { SVC_LIMIT_RECONNECT_MS: '86400000' },
  });
  assert.is(code, 10);
  assert.is(JSON.parse(stderr).error.code, 'run_interrupted');
});

test('is awaited as often as needed within the limit, and reported once', async ({
  home,
  daemon,
}) => {
  let asked = 0;
  const piece = (
    text: string,
    { event, hangUp }: { event(event: unknown): void; hangUp(): void },
  ) => {
    asked += 1;
    event(output(text, asked));
    hangUp();
  };
  daemon.on('run.start', (reply) => {
    reply.event({ run });
    piece('0', reply);
  });
  daemon.on('run.follow', (reply) =>
    asked < 20
      ? piece(String(asked % 10), reply)
      : reply.result({ ...run, state: 'completed', output: '' }),
  );
  const { code, stdout, stderr } = await home.svc(['run', 'p'], {
    env: { SVC_LIMIT_RECONNECT_MS: '86400000' },
  });
  assert.equal([code, stdout, stderr], [0, '01234567890123456789\n', `${GONE}\n`]);
});

const onTty = hasTerminal ? test : test.skip;

onTty('is shown on a terminal in one line that is erased', async ({ home, daemon }) => {
  daemon.on('run.start', ({ event, hangUp }) => {
    event({ run });
    event(output('half', 40));
    hangUp();
  });
  daemon.on('run.follow', ({ event, result }) => {
    event(output(' and half', 41));
    result({ ...run, state: 'completed', output: 'half and half', finish_reason: 'stop' });
  });
  // The daemon answers again once the terminal says that it is gone.
  const { promise: seen, resolve: isSeen } = Promise.withResolvers<void>();
  daemon.on('status', ({ result }) => void seen.then(() => result(status)));
  const env = { ...home.env, NO_COLOR: '1' };
  const { code, text } = await onTerminal(['run', 'p'], env, (_, shown) => {
    if (!shown.includes(GONE)) return false;
    isSeen();
    return true;
  });
  assert.is(code, 0);
  const [half, ...lines] = text.split('\r\u001b[K');
  assert.equal([half, lines.pop()], ['half\n', ' and half\n']);
  for (const line of lines) assert.ok(line.startsWith(GONE), line);
});

test.run();
