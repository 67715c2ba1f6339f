import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Home, makeHome } from '../helpers/svc.ts';
import { hasTerminal, typeAt } from '../helpers/terminal.ts';
import { Upstream } from '../helpers/upstream.ts';

/** `svc provider key`: the key reaches the provider, and nothing else. */
const test = suite<Context>('keys of providers');

interface Context {
  home: Home;
  upstream: Upstream;
}

const KEY = 'sk-live-1111-secret';

test.before.each(async (context) => {
  context.home = makeHome();
  context.upstream = await Upstream.start((exchange) => {
    const { path, headers } = exchange.received;
    if (headers.authorization !== `Bearer ${KEY}`)
      exchange.reply(401, { error: { message: `Wrong key ${headers.authorization}` } });
    else if (path.endsWith('/models')) exchange.reply(200, { data: [{ id: 'm' }] });
    else void exchange.answer('It is here.');
  });
  const settings = { base_url: context.upstream.base_url, model: 'm', key: 'env:LAB_KEY' };
  writeFileSync(context.home.paths.config, JSON.stringify({ providers: { lab: settings } }));
});
test.after.each(async ({ home, upstream }) => {
  await home.close();
  await upstream.stop();
});

const credential = async (home: Home) => {
  const { stdout } = await home.svc(['provider', 'list', '--json']);
  const { providers } = JSON.parse(stdout) as { providers: { id: string; credential: string }[] };
  return providers.find(({ id }) => id === 'lab')?.credential;
};

test('a key from stdin counts at once, and only its provider and its file get it', async ({
  home,
  upstream,
}) => {
  assert.is((await home.svc(['start'])).code, 0);
  const ask = () => home.svc(['run', 'hi', '--provider', 'lab']);
  assert.is((await ask()).code, 5, 'the daemon has no key');

  const wrong = await home.svc(['provider', 'key', 'lab'], { stdin: 'sk-wrong-2222\n' });
  assert.is(wrong.code, 0, wrong.stderr);
  const refused = await ask();
  assert.is(refused.code, 5, 'the provider refuses the wrong key');
  assert.not.match(refused.stderr, 'sk-wrong');

  const stored = await home.svc(['provider', 'key', 'lab', '--store', 'file'], {
    stdin: `${KEY}\n`,
  });
  assert.is(stored.code, 0, stored.stderr);
  const answer = await ask();
  assert.is(answer.code, 0, answer.stderr);
  assert.is(answer.stdout.trim(), 'It is here.');
  assert.is(await credential(home), 'stored (file)');
  assert.is(upstream.received.at(-1)?.headers.authorization, `Bearer ${KEY}`);

  const removed = await home.svc(['provider', 'key', 'lab', '--remove']);
  assert.is(removed.code, 0, removed.stderr);
  assert.is((await ask()).code, 5, 'a removed key is gone at once');
  assert.is((await home.svc(['provider', 'key', 'lab', '--remove'])).code, 2);
  await home.svc(['stop']);
  for (const text of filesOf(home.folder)) {
    assert.not.match(text, KEY);
    assert.not.match(text, 'sk-wrong-2222');
  }
});

test('a key comes from a variable or a file, also without a daemon', async ({ home, upstream }) => {
  const fromEnv = await home.svc(['provider', 'key', 'lab', '--from-env', 'MINE'], {
    env: { MINE: KEY },
  });
  assert.is(fromEnv.code, 0, fromEnv.stderr);
  const answer = await home.svc(['run', 'hi', '--provider', 'lab']);
  assert.is(answer.stdout.trim(), 'It is here.', answer.stderr);
  assert.is(upstream.received.at(-1)?.headers.authorization, `Bearer ${KEY}`);

  const file = join(home.folder, 'my-key');
  writeFileSync(file, `${KEY}\n`, { mode: 0o644 });
  const readable = await home.svc(['provider', 'key', 'lab', '--from-file', file]);
  assert.is(readable.code, 5);
  assert.match(readable.stderr, 'chmod 600');
  assert.is((await home.svc(['provider', 'key', 'lab', '--from-env', 'NOT_SET'])).code, 2);
  assert.is((await home.svc(['provider', 'key', 'lab'], { stdin: '' })).code, 2);
  assert.is((await home.svc(['provider', 'key', 'local'], { stdin: KEY })).code, 7);
  const unknown = await home.svc(['provider', 'key', 'openai'], { stdin: KEY });
  assert.match(unknown.stderr, 'svc provider add openai');
});

test('a key that is typed at a terminal is not shown', async ({ home }) => {
  if (!hasTerminal) return;
  const { code, text } = await typeAt(['provider', 'key', 'lab'], home.env, 'Key of lab', KEY);
  assert.is(code, 0, text);
  assert.match(text, 'Stored the key of lab');
  assert.not.match(text, KEY);
  assert.is((await home.svc(['run', 'hi', '--provider', 'lab'])).code, 0);
});

/** The texts of all files of the home, but the stored key. */
function filesOf(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile())
    .map((path) => readFileSync(path, 'latin1'));
}

test.run();
