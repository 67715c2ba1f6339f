import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Home, makeHome } from '../helpers/svc.ts';
import { hasTerminal, onTerminal, playing, type Script } from '../helpers/terminal.ts';

/** Conversations on the built program with the real engine: one daemon for all tests. */
const test = suite('a conversation, from the command line');
let home: Home;

test.before(() => {
  home = makeHome();
});
test.after(async () => {
  await home.svc(['stop', '--force']);
  await home.close();
});

interface Run {
  id: string;
  prompt: string;
  conversation: string;
  continues?: string;
  messages?: { role: string; content: { text: string }[] }[];
  output: string;
}
const read = (text: string) => JSON.parse(text) as Run;
const turns: Run[] = [];

test('-c continues the last conversation of the folder, and --conversation the one of a run', async () => {
  const first = await home.svc(['run', 'What is svc?', '--json']);
  assert.is(first.code, 0, first.stderr);
  const second = await home.svc(['run', '-c', 'how', 'do', 'I', 'stop', 'it?', '--json']);
  assert.is(second.code, 0, second.stderr);
  turns.push(read(first.stdout), read(second.stdout));
  const [one, two] = turns;
  assert.equal(
    [two?.conversation, two?.continues, two?.prompt],
    [one?.id, one?.id, 'how do I stop it?'],
  );
  assert.equal(
    two?.messages?.map(({ role, content }) => [role, content[0]?.text]),
    [
      ['user', 'What is svc?'],
      ['assistant', one?.output],
      ['user', 'how do I stop it?'],
    ],
  );
  const third = await home.svc(['run', '--conversation', one?.id ?? '', 'Thanks', '--json']);
  turns.push(read(third.stdout));
  assert.is(turns[2]?.continues, two?.id);
});

(hasTerminal ? test : test.skip)(
  'a chat at a terminal says who answers and what it continues',
  async () => {
    const quit: Script = [['> ', '\u0004']];
    const fresh = await onTerminal(['chat'], home.env, playing(quit));
    assert.match(fresh.text, 'local/svc-mini · on this machine · a new conversation');
    const args = ['chat', '--conversation', turns[0]?.id ?? ''];
    const env = { ...home.env, COLUMNS: '200' };
    const { code, text } = await onTerminal(args, env, playing(quit));
    assert.is(code, 0, text);
    assert.match(text, /· continues 3 turns · last: Thanks/);
  },
);

test('another folder has no conversation to continue', async () => {
  const elsewhere = join(home.folder, 'elsewhere');
  mkdirSync(elsewhere);
  const options = { wrapper: ['env', '-C', elsewhere] };
  const { code, stderr } = await home.svc(['run', '-c', 'and?'], options);
  assert.is(code, 2);
  assert.match(stderr, 'No conversation was begun in this folder');
  const both = await home.svc(['run', '-c', '--conversation', 'last', 'x']);
  assert.equal([both.code, both.stdout], [2, '']);
});

test('a run is named by its id, the beginning of it, or last, with a daemon and without', async () => {
  const [first, , last] = turns.map(({ id }) => id);
  const listed = await home.svc(['runs', 'list', '--conversation', 'last', '--json']);
  const { runs } = JSON.parse(listed.stdout) as { runs: Run[] };
  assert.equal(
    runs.map(({ id }) => id),
    turns.map(({ id }) => id).reverse(),
  );
  const shown = await home.svc(['runs', 'show', 'last', '--json']);
  assert.is(read(shown.stdout).id, last);
  assert.match((await home.svc(['runs', 'show', 'last'])).stdout, `conversation  ${first}`);
  // Ids of one millisecond may share all but their end.
  const beginning = (first ?? '').slice(4, -1).toLowerCase();
  const attached = await home.svc(['runs', 'attach', beginning]);
  assert.is(attached.stdout, `${turns[0]?.output}\n`, attached.stderr);
  const several = await home.svc(['runs', 'show', 'run_0']);
  assert.is(several.code, 2);
  assert.match(several.stderr, 'Several runs begin with run_0');
  const reads = [
    ['runs', 'list', '--conversation', 'last'],
    ['runs', 'list', '--limit', '2', '--state', 'completed'],
    ['runs', 'show', beginning],
    ['runs', 'show', 'run_0'],
    ['runs', 'search', 'svc'],
    ['usage'],
    ['usage', '--by', 'day', '--since', '7d'],
    ['usage', '--conversation', 'last'],
  ];
  const answers = async (env = {}) => {
    const outcomes = [];
    for (const args of reads) {
      const { code, stdout } = await home.svc([...args, '--json'], { env });
      outcomes.push([code, stdout]);
    }
    return outcomes;
  };
  const online = await answers();
  assert.equal(
    online.map(([code]) => code),
    [0, 0, 0, 2, 0, 0, 0, 0],
  );
  await home.svc(['stop']);
  const temporary = join(home.folder, 'temporary');
  mkdirSync(temporary);
  const env = { TMPDIR: temporary };
  assert.equal(await answers(env), online, 'the same from the log as from the daemon');
  const unserved = await home.svc(['runs', 'list'], { env });
  assert.match(unserved.stderr, 'The daemon is not running. This is from its log.');
  const copies = readdirSync(temporary).filter((name) => name.startsWith('svc-copy-'));
  assert.equal(copies, []);
  const why = JSON.parse((await home.svc(['runs', 'why', 'last', '--json'])).stdout);
  assert.is(why.run_id, last);
  const replayed = JSON.parse((await home.svc(['runs', 'replay', beginning, '--json'])).stdout);
  assert.is(replayed.run.id, first);
  const exported = JSON.parse((await home.svc(['runs', 'export', 'last'])).stdout);
  assert.is(exported.run_id, last);
});

test('runs are found by their words and removed, and what is removed is in no file of the log', async () => {
  const secret = 'xyzzyplugh';
  const asked = await home.svc(['run', '-c', secret, '--json']);
  const { id } = read(asked.stdout);
  const first = turns[0]?.id ?? '';
  const search = async (...words: string[]) =>
    (
      JSON.parse((await home.svc(['runs', 'search', ...words, '--json'])).stdout) as { runs: Run[] }
    ).runs.map((run) => run.id);
  assert.equal(await search(secret), [id]);
  assert.ok((await search('what is svc', 'daemon')).includes(first));
  assert.match(
    (await home.svc(['runs', 'search', secret.toUpperCase()])).stdout,
    `${id}  completed`,
  );
  const refused = await home.svc(['runs', 'remove', first]);
  assert.is(refused.code, 2);
  assert.match(refused.stderr, 'later turns');
  const removed = await home.svc(['runs', 'remove', 'last']);
  assert.equal([removed.code, removed.stderr], [0, '']);
  assert.match(removed.stdout, id);
  assert.equal(await search(secret), []);
  const files = [home.paths.database, `${home.paths.database}-wal`];
  for (const file of files) assert.not.ok(readFileSync(file).includes(secret), file);
  const all = await home.svc(['runs', 'remove', '--conversation', first, '--json']);
  assert.is(JSON.parse(all.stdout).removed.length, 3, all.stderr);
  assert.equal(await search('svc'), []);
  assert.is((await home.svc(['doctor'])).code, 0, 'the log with its gaps is whole');
});

test.run();
