import { readFileSync, writeFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { providersFile } from '../../src/config/providers/providers-file.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { Upstream } from '../helpers/upstream.ts';

/** `svc provider set` and `svc provider default`, with a daemon and without. */
const test = suite<{ home: Home; upstream: Upstream }>('settings of providers');

test.before.each(async (context) => {
  context.home = makeHome();
  context.upstream = await Upstream.start((exchange) => {
    if (exchange.received.path.endsWith('/models')) exchange.reply(200, { data: [{ id: 'm' }] });
    else void exchange.answer('It is here.');
  });
});
test.after.each(async ({ home, upstream }) => {
  await home.close();
  await upstream.stop();
});

const saved = (home: Home) => JSON.parse(readFileSync(providersFile(home.paths.config), 'utf8'));

test('a change counts at once and after a restart, and the text of a header is never shown', async ({
  home,
  upstream,
}) => {
  const add = ['provider', 'add', 'lab', '--base-url', upstream.base_url, '--model', 'm'];
  assert.is((await home.svc(['start'])).code, 0);
  const added = await home.svc([...add, '--header', 'X-Team: blue', '--header', 'X-Way: up']);
  assert.is(added.code, 0, added.stderr);
  const set = await home.svc(['provider', 'set', 'lab', '--model', 'm2', '--header', 'X-Way:']);
  assert.is(set.code, 0, set.stderr);
  assert.match(set.stdout, 'Changed lab (local');
  const answer = await home.svc(['run', 'hi', '--provider', 'lab']);
  assert.is(answer.stdout, 'It is here.\n', answer.stderr);
  const asked = upstream.received.at(-1);
  assert.equal([asked?.headers['x-team'], asked?.headers['x-way']], ['blue', undefined]);
  assert.is(JSON.parse(asked?.body ?? '').model, 'm2');
  const { headers: kept, model } = saved(home).lab;
  assert.equal([kept, model], [{ 'X-Team': 'blue' }, 'm2']);
  const shown = [
    ['provider', 'list', '--json'],
    ['config', 'show'],
    ['config', 'show', '--json'],
    ['provider', 'set', 'lab', '--max-runs', '2', '--json'],
    ['logs'],
  ];
  for (const command of shown) {
    const { stdout, stderr } = await home.svc(command);
    assert.not.match(stdout + stderr, 'blue', command.join(' '));
  }
});

test('without a daemon a change is kept for the next start', async ({ home, upstream }) => {
  const add = await home.svc(['provider', 'add', 'lab', '--base-url', upstream.base_url]);
  assert.is(add.code, 0, add.stderr);
  assert.match(add.stderr, 'svc start');
  const set = await home.svc(['provider', 'set', 'lab', '--model', 'm']);
  assert.equal([set.code, saved(home).lab.model], [0, 'm'], set.stderr);
  assert.is((await home.svc(['provider', 'default', 'lab'])).code, 0);
  assert.is((await home.svc(['provider', 'default'])).stdout, 'lab\n');
  const answer = await home.svc(['run', 'hi']);
  assert.is(answer.stdout, 'It is here.\n', answer.stderr);
  assert.is((await home.svc(['provider', 'default', 'local'])).code, 0);
  assert.is((await home.svc(['provider', 'default'])).stdout, 'local\n');
});

test('the default is cleared with its provider, and a cloud default says what it means', async ({
  home,
}) => {
  assert.is((await home.svc(['start'])).code, 0);
  const env = { OPENAI_API_KEY: '' };
  const added = await home.svc(['provider', 'add', 'openai'], { env });
  assert.match(added.stderr, 'svc provider key openai');
  const chosen = await home.svc(['provider', 'default', 'openai']);
  assert.match(chosen.stderr, 'leave this machine');
  assert.is((await home.svc(['provider', 'remove', 'openai'])).code, 0);
  assert.is((await home.svc(['provider', 'default'])).stdout, 'local\n');
});

test('a new server does not get the old key', async ({ home }) => {
  const add = ['provider', 'add', 'work', '--base-url', 'https://one.invalid/v1'];
  assert.is((await home.svc([...add, '--key', 'env:WORK_KEY'])).code, 0);
  const same = await home.svc(['provider', 'set', 'work', '--base-url', 'https://one.invalid/v2']);
  assert.equal([same.code, saved(home).work.key], [0, 'env:WORK_KEY']);
  const moved = await home.svc(['provider', 'set', 'work', '--base-url', 'http://127.0.0.1:1/v1']);
  assert.equal([moved.code, saved(home).work.key, saved(home).work.kind], [0, undefined, 'local']);
  assert.match(moved.stderr, 'svc provider key work');
});

const wrong: [args: string[], code: number, says: string][] = [
  [['set', 'lab'], 2, 'No setting is given'],
  [['set', 'lab', '--model', 'm'], 7, 'There is no provider "lab". Known: local, mine.'],
  [['set', 'local', '--model', 'm'], 7, 'The built-in engine has no settings of a provider.'],
  [['set', 'mine', '--model', 'm'], 2, 'config.json, which svc does not change.'],
  [['default', 'lab'], 7, 'There is no provider "lab"'],
  [['add', 'bedrock'], 2, 'The adapter bedrock needs region.'],
  [['add', 'azure'], 2, 'The adapter azure needs resource or --base-url.'],
  [['add', 'x'], 2, '--base-url is missing'],
  [['add', 'x', '--base-url', 'ftp://a'], 2, '--base-url must be an http or https address.'],
  [['add', 'x', '--like', 'y'], 2, '--like must be one of openai,'],
  [['add', 'x', '--like', 'groq', '--kind', 'far'], 2, '--kind must be "local" or "cloud".'],
  [['add', 'x', '--like', 'groq', '--key', 'sk-1'], 2, '--key must be a reference'],
  [['add', 'x', '--like', 'groq', '--key-env', 'a b'], 2, '--key-env must name'],
  [['add', 'x', '--like', 'groq', '--header', 'secret'], 2, '--header must be a name and a text'],
  [['add', 'x', '--like', 'groq', '--header', 'X-Api-Key: s'], 2, '--header must not hold'],
  [['add', 'x', '--like', 'groq', '--header', 'Host: s'], 2, '--header must not have "Host"'],
  [['add', 'x', '--like', 'groq', '--options', 'region=1'], 2, '"region" is not an option of'],
  [['add', 'x', '--like', 'groq', '--max-runs', '0'], 2, '--max-runs must be a whole number'],
  [['add', 'Local'], 2, 'A provider cannot be named "Local": an id is'],
  [['add', 'x', '--adapter', 'npm:left-pad'], 2, 'Only your configuration file can name one.'],
];

test('what cannot be is refused in one sentence with the next step', async ({ home }) => {
  const mine = { mine: { base_url: 'http://127.0.0.1:1/v1' } };
  writeFileSync(home.paths.config, JSON.stringify({ providers: mine }), { mode: 0o600 });
  const seen: [string, number | null, string][] = [];
  for (const [args, code, says] of wrong) {
    const refused = await home.svc(['provider', ...args]);
    seen.push([args.join(' '), refused.code, refused.stderr]);
    assert.is(refused.code, code, `${args.join(' ')}: ${refused.stderr}`);
    assert.ok(refused.stderr.includes(says), `${args.join(' ')}: ${refused.stderr}`);
    assert.not.match(refused.stderr, /secret|--the|--an |--"|sk-1/);
  }
});

test.run();
