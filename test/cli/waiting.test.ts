import { writeFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Home, makeHome } from '../helpers/svc.ts';
import { hasTerminal, onTerminal } from '../helpers/terminal.ts';
import { type Scenario, Upstream } from '../helpers/upstream.ts';
import { completed, output, run, startFakeDaemon } from './fake-daemon.ts';

/** What a terminal shows while `svc run` waits, with the real program and daemon. */
const test = suite<{ home: Home; upstream: Upstream }>('waiting for an answer');
const onTty = hasTerminal ? test : test.skip;

test.before.each(async (context) => {
  context.home = makeHome();
  context.upstream = await Upstream.start();
  const { base_url } = context.upstream;
  const providers = { lab: { base_url, model: 'm', kind: 'cloud' } };
  writeFileSync(context.home.paths.config, JSON.stringify({ providers }), { mode: 0o600 });
});
test.after.each(async ({ home, upstream }) => {
  await home.close();
  await upstream.stop();
});

const ERASE = '\r\u001b[K';

/** Answers once the terminal shows the text, after its reasoning. */
function held(text: string) {
  const { promise: isShown, resolve } = Promise.withResolvers<void>();
  const seen = (_: unknown, shown: string) => {
    if (!shown.includes(text)) return false;
    resolve();
    return true;
  };
  const scenario: Scenario = async (x) => {
    x.open();
    await isShown;
    await x.event({ choices: [{ index: 0, delta: { reasoning_content: 'Hm.\n\n' } }] });
    await x.text('Yes.');
    await x.finish();
    await x.usage(3, 5);
    await x.done();
  };
  return { scenario, seen, isShown };
}

onTty(
  'a slow first token has a line, which is gone before reasoning and answer',
  async ({ home, upstream }) => {
    const { scenario, seen } = held('Waiting for the first token of lab');
    upstream.scenario = scenario;
    const { code, text } = await onTerminal(['run', 'hi', '-p', 'lab', '--stats'], home.env, seen);
    assert.is(code, 0, text);
    const dim = (said: string) => `\u001b[2m${said}\u001b[22m`;
    const [before, after = ''] = [text.slice(0, text.lastIndexOf(ERASE)), text.split(ERASE).at(-1)];
    assert.match(before, /Waiting for the first token of lab/);
    const stats = after.replace(`${dim('Hm.')}\n\nYes.\n`, '');
    assert.match(stats, /first token \S+ s · .*3 tokens in, 5 out · total \S+ s/);
  },
);

onTty(
  'a failed attempt has a line with its reason and the next attempt',
  async ({ home, upstream }) => {
    const { scenario, seen } = held('Trying again in');
    const busy = { error: { message: 'slow down' } };
    upstream.scenario = async (x) => {
      upstream.scenario = scenario;
      await x.reply(429, busy, { 'retry-after': '1' });
    };
    const { code, text } = await onTerminal(['run', 'hi', '-p', 'lab'], home.env, seen);
    assert.is(code, 0, text);
    assert.match(text, /Trying again in \d+ s \(2 of 3\): lab had too many requests/);
    assert.match(text.split(ERASE).at(-1) ?? '', /Yes\.\n$/);
  },
);

onTty(
  'the queue and the load of a model have a line, and a message does not tear it',
  async ({ home }) => {
    const daemon = await startFakeDaemon(home);
    try {
      const [place, load] = [held('in the queue, place 2'), held('Loading big, 45 %')];
      daemon.on('run.start', ({ event, result }) => {
        const started = (seq: number, attempt: number) =>
          event({ seq, type: 'run.started', at: run.created_at, data: { attempt } });
        event({ run });
        event({ queue_position: 2 });
        void place.isShown.then(() => {
          started(2, 1);
          event({ loading: { model: 'big', progress: 0.456 } });
        });
        void load.isShown.then(() => {
          started(3, 2);
          event(output('Yes.', 4));
          result(completed('Yes.'));
        });
      });
      const seen = (typed: unknown, shown: string) =>
        place.seen(typed, shown) && load.seen(typed, shown);
      const { code, text } = await onTerminal(['run', 'hi'], { ...home.env, NO_COLOR: '1' }, seen);
      assert.is(code, 0, text);
      const said = 'The answer starts again.\n';
      assert.match(text, `${ERASE}${said}`);
      assert.match(text, /Yes\.\n$/);
      const lines = text.replace(said, '').split(ERASE);
      for (const line of lines)
        assert.match(
          line,
          /^(|Waiting in the queue, place 2.*|Waiting for.*|Loading big, 45 %.*|Yes\.\n)$/,
        );
    } finally {
      await daemon.close();
    }
  },
);

test('without a terminal nothing of it is written', async ({ home, upstream }) => {
  upstream.scenario = async (x) => {
    x.open();
    await x.event({ choices: [{ index: 0, delta: { reasoning_content: 'Hm.' } }] });
    await x.text('Yes.');
    await x.finish();
    await x.usage(3, 5);
    await x.done();
  };
  for (const flags of [[], ['--json']]) {
    const { code, stdout, stderr } = await home.svc(['run', 'hi', '-p', 'lab', ...flags]);
    assert.is(code, 0);
    assert.not.match(stderr, /Waiting|Loading|Hm/);
    if (flags.length === 0) assert.is(stdout, 'Yes.\n');
    else
      assert.equal(JSON.parse(stdout).output_parts, [
        { type: 'reasoning', text: 'Hm.' },
        { type: 'text', text: 'Yes.' },
      ]);
  }
});

test('--stats has the facts of the record, also as JSON', async ({ home, upstream }) => {
  upstream.scenario = async (x) => {
    x.open();
    await x.text('Yes.');
    await x.finish();
    await x.usage(3, 5);
    await x.done();
  };
  const { stdout, stderr } = await home.svc(['run', 'hi', '-p', 'lab', '--stats', '--no-stream']);
  assert.is(stdout, 'Yes.\n');
  assert.match(stderr, /first token .*3 tokens in, 5 out.*total/);
  const { stats, ...record } = JSON.parse(
    (await home.svc(['run', 'hi', '-p', 'lab', '--stats', '--json'])).stdout,
  );
  const ms = (from: string, to: string) => Date.parse(record[to]) - Date.parse(record[from]);
  assert.is(stats.first_token_ms, ms('created_at', 'first_output_at'));
  assert.is(stats.total_ms, ms('created_at', 'ended_at'));
  assert.equal([stats.input_tokens, stats.output_tokens, stats.load_ms], [3, 5, null]);
});

test.run();
