import { writeFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Home, makeHome } from '../helpers/svc.ts';
import { type Scenario, Upstream } from '../helpers/upstream.ts';

/** What `svc run` says of an answer that is not whole, and of a provider that does not answer. */
const test = suite<{ home: Home; upstream: Upstream }>('outcomes of svc run');

test.before.each(async (context) => {
  context.home = makeHome();
  context.upstream = await Upstream.start();
  const { base_url } = context.upstream;
  const lab = { base_url, model: 'm', kind: 'cloud' };
  const providers = { lab, keyed: { ...lab, key: 'env:LAB_KEY' } };
  writeFileSync(context.home.paths.config, JSON.stringify({ providers }), { mode: 0o600 });
});
test.after.each(async ({ home, upstream }) => {
  await home.close();
  await upstream.stop();
});

const answers =
  (text: string, reason: string, output_tokens = 4): Scenario =>
  async (x) => {
    x.open();
    if (text !== '') await x.text(text);
    await x.finish(reason);
    await x.usage(3, output_tokens);
    await x.done();
  };

const ask = (home: Home, ...more: string[]) => home.svc(['run', 'hi', '-p', 'lab', ...more]);

test('a failed attempt is a line on stderr, with its reason and its number', async ({
  home,
  upstream,
}) => {
  let asked = 0;
  upstream.scenario = (x) => {
    asked += 1;
    if (asked > 1) return x.answer('At last.');
    return x.reply(429, { error: { message: 'slow down' } }, { 'retry-after': '1' });
  };
  const { code, stdout, stderr } = await ask(home);
  assert.equal([code, stdout], [0, 'At last.\n'], stderr);
  assert.match(stderr, /lab.*slow down\. Trying again in \S+ .*\(2 of 3\)/);
});

test('a wait that is too long ends the run at once, and its error has the wait', async ({
  home,
  upstream,
}) => {
  upstream.scenario = (x) => x.reply(429, { error: { message: 'quota' } }, { 'retry-after': '45' });
  const { code, stderr } = await ask(home);
  assert.is(code, 9);
  assert.match(stderr, 'It asks for a wait of 45 s.');
  assert.not.match(stderr, 'rying again');
  assert.is(upstream.received.length, 1);
  const shown = await home.svc(['runs', 'list', '--json']);
  const [run] = JSON.parse(shown.stdout).runs;
  assert.equal(
    [run.error.code, run.error.details],
    ['provider_busy', { status: 429, retry_after_ms: 45_000 }],
  );
});

const cases: [what: string, scenario: Scenario, flags: string[], code: number, says: RegExp][] = [
  ['a filter cut', answers('Hel', 'content_filter'), [], 10, /content filter of lab cut/],
  ['has no text', answers('', 'stop'), [], 10, /lab answered with nothing/],
  ['the context cut', answers('Hel', 'length'), [], 10, /lab cut the answer after 4 tokens/],
  [
    'the context cut before --max-tokens',
    answers('Hel', 'length'),
    ['--max-tokens', '50'],
    10,
    /lab cut the answer after 4 tokens/,
  ],
  [
    '--max-tokens cut',
    answers('Hel', 'length', 50),
    ['--max-tokens', '50'],
    0,
    /ends at --max-tokens 50/,
  ],
];
for (const [what, scenario, flags, expected, says] of cases)
  test(`an answer that ${what} ends with ${expected} and a line on stderr`, async ({
    home,
    upstream,
  }) => {
    upstream.scenario = scenario;
    const { code, stdout, stderr } = await ask(home, ...flags);
    assert.is(code, expected, stderr);
    assert.match(stderr, says);
    if (what !== 'has no text') assert.is(stdout, 'Hel\n');
    const json = await ask(home, ...flags, '--json');
    assert.is(json.code, expected, json.stderr);
    // An answer with nothing is a failed attempt.
    const state = what === 'has no text' ? 'failed' : 'completed';
    assert.is(JSON.parse(json.stdout).state, state);
  });

test('a key of this shell that the daemon lacks is said as such', async ({ home }) => {
  assert.is((await home.svc(['start'])).code, 0);
  const { code, stderr } = await home.svc(['run', 'hi', '-p', 'keyed'], {
    env: { LAB_KEY: 'sk-of-this-shell' },
  });
  assert.is(code, 5);
  assert.match(stderr, /LAB_KEY is set in this shell/);
  assert.match(stderr, 'svc provider key keyed --from-env LAB_KEY');
  assert.not.match(stderr, 'sk-of-this-shell');
});

test.run();
