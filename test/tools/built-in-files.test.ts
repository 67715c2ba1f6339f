import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { APPROVAL_DIFF_BYTES_MAX } from '../../src/limits.ts';
import { callingModel, settled } from '../helpers/calling-model.ts';
import { atEnd, bootFolders, leaveFolders, refused, soon } from '../helpers/file-tools.ts';
import { bootRuntime } from '../helpers/runtime.ts';
import { waitFor } from '../helpers/wait.ts';

/** The tool svc:files: what it does. */

test.after.each(leaveFolders);

test('it is a server like others: states, annotations, policies', async () => {
  const { servers, events, notes } = await bootFolders();
  const shown = await servers.show('x', false, soon());
  assert.equal(
    shown.tools.map((tool) => [tool.name, tool.policy, tool.read_only, tool.idempotent]),
    [
      ['list', 'allow', true, true],
      ['read', 'allow', true, true],
      ['search', 'allow', true, true],
      ['write', 'ask', false, true],
      ['edit', 'ask', false, false],
    ],
  );
  assert.equal(
    [shown.transport, shown.state, shown.target, shown.pid, shown.server],
    ['svc', 'ready.idle', `svc:files ${notes}`, null, 'svc 0.0.0'],
  );
  const tools = await servers.tools('x', soon());
  assert.equal(
    tools.map((tool) => servers.mayRepeat('x', tool)),
    [true, true, true, true, false],
  );
  await servers.stopAll();
  assert.equal(await events(1), [
    'mcp.created',
    'mcp.start_requested',
    'mcp.ready',
    'mcp.stop_requested',
    'mcp.ended',
  ]);
});

test('what a write or an edit changes is known before it is done, and changes nothing', async () => {
  const { servers, notes } = await bootFolders();
  const path = join(notes, 'a.md');
  const edit = { path: 'a.md', old: 'two two', new: 'two\n2' };
  assert.is(
    await servers.changes('x', 'edit', edit),
    `--- ${path}\n+++ ${path}\n@@ -1,3 +1,4 @@\n one\n-two two\n+two\n+2\n three $& ü\n`,
  );
  const added = 'new/c.md';
  assert.is(
    await servers.changes('x', 'write', { path: 'new/c.md', content: 'c' }),
    `--- ${added}\n+++ ${added}\n@@ -0,0 +1,1 @@\n+c\n\\ No newline at end of file\n`,
  );
  assert.not(existsSync(join(notes, 'new')));
  assert.is(readFileSync(path, 'utf8'), 'one\ntwo two\nthree $& ü\n');
  // A call that would be refused has none, and none shows what is elsewhere.
  for (const args of [{ ...edit, old: 'absent' }, { ...edit, path: '../secret.txt' }, {}, null])
    assert.is(await servers.changes('x', 'edit', args), null);
  assert.is(await servers.changes('x', 'write', { path: 'own/token', content: 'x' }), null);
  assert.is(await servers.changes('x', 'read', { path: 'a.md' }), null);
  assert.is(await servers.changes('absent', 'write', edit), null);
  assert.is(servers.target('x'), `svc:files ${notes}`);
});

test('a diff that is too much to compute or to read is left out', async () => {
  const { servers, notes } = await bootFolders();
  const lines = (word: string) => Array.from({ length: 100_000 }, (_, at) => `${word} ${at}\n`);
  writeFileSync(join(notes, 'big.txt'), lines('old').join(''));
  const content = lines('new').join('');
  assert.is(await servers.changes('x', 'write', { path: 'big.txt', content }), null);
  const long = 'x'.repeat(APPROVAL_DIFF_BYTES_MAX);
  assert.is(await servers.changes('x', 'write', { path: 'long.txt', content: long }), null);
});

test('other folders are another tool, and trust can be taken from it', async () => {
  const { servers, write, notes, around } = await bootFolders();
  await servers.allowAlways('x', 'write');
  const tool = async () => (await servers.tools('x', soon())).find((one) => one.tool === 'write');
  const policy = async () => servers.policy('x', (await tool()) as never);
  assert.is(await policy(), 'allow');
  const [before] = servers.list().servers;
  const rule = { write: { policy: 'allow', digest: (await tool())?.digest } };
  write({ x: { type: 'svc:files', folders: [notes, around], svc: { tools: rule } } });
  assert.is(await policy(), 'ask');
  assert.ok(before?.trusted);
  write({ x: { type: 'svc:files', folders: [notes], svc: { trusted: false } } });
  const [read] = await servers.tools('x', soon());
  assert.is(servers.policy('x', read as never), 'ask');
});

test('list, read and search', async () => {
  const { use, notes } = await bootFolders();
  writeFileSync(join(notes, '.env'), 'SECRET');
  symlinkSync('a.md', join(notes, 'same.md'));
  const listed = await use('list', {});
  assert.is(
    listed.text,
    `${notes} has 4 entries; names with a dot first are left out:\n` +
      'a.md\ndeep/\nown/\nsame.md (no plain file)',
  );
  assert.is((await use('read', { path: 'a.md' })).text, 'one\ntwo two\nthree $& ü\n');
  assert.is((await use('read', { path: 'same.md', line: 2, lines: 1 })).text, 'two two');
  assert.is((await use('read', { path: join(notes, 'deep/b.txt') })).text, 'Two of them');
  const found = await use('search', { text: 'TWO' });
  const lines = [`${notes}/a.md:2: two two`, `${notes}/deep/b.txt:1: Two of them`];
  assert.is(found.text, lines.join('\n'));
  assert.is((await use('search', { file: '.TXT' })).text, `${notes}/deep/b.txt`);
  assert.is((await use('search', { text: '(a+)+$' })).text, 'Nothing was found.');
  await refused(use('read', { path: 'absent' }), /absent is not there\./);
  await refused(use('read', { path: 'deep' }), /is a folder/);
  await refused(use('read', { path: 'a.md/x' }), /not a folder/);
  await refused(use('read', {}), /do not fit/);
  await refused(use('remove', { path: 'a.md' }), /There is no remove/);
});

test('write and edit: whole, at once, with the mode of the file', async () => {
  const { use, notes } = await bootFolders();
  const a = join(notes, 'a.md');
  chmodSync(a, 0o640);
  assert.not.ok((await use('edit', { path: 'a.md', old: 'two two', new: '$& $1' })).is_error);
  assert.is(readFileSync(a, 'utf8'), 'one\n$& $1\nthree $& ü\n');
  assert.is(statSync(a).mode & 0o777, 0o640);
  await refused(use('edit', { path: 'a.md', old: 'absent', new: '' }), /does not have that text/);
  await refused(use('edit', { path: 'a.md', old: '$&', new: '' }), /several times/);
  await refused(use('edit', { path: 'a.md', old: '', new: 'x' }), /does not have that text/);
  writeFileSync(a, 'aaa');
  await refused(use('edit', { path: 'a.md', old: 'aa', new: 'b' }), /several times/);
  writeFileSync(a, '\ufeffone\r\ntwo\r\n');
  await use('edit', { path: 'a.md', old: 'one\r\n', new: '1\r\n' });
  assert.is(
    readFileSync(a, 'utf8'),
    '\ufeff1\r\ntwo\r\n',
    'its byte order mark and line ends stay',
  );
  chmodSync(notes, 0o755);
  assert.match(
    (await use('write', { path: 'new/er/c.txt', content: 'c' })).text,
    /has 1 bytes now/,
  );
  assert.is(readFileSync(join(notes, 'new/er/c.txt'), 'utf8'), 'c');
  chmodSync(join(notes, 'new'), 0o700);
  await use('write', { path: 'new/d.txt', content: 'd' });
  assert.is(statSync(join(notes, 'new/d.txt')).mode & 0o777, 0o600);
  await refused(use('write', { path: 'deep', content: '' }), /is a folder/);
  assert.equal(
    readdirSync(notes).filter((name) => name.startsWith('.')),
    [],
    'no draft is left',
  );
});

test('a write removes the drafts of a daemon that died, and nothing else', async () => {
  const { notes, use } = await bootFolders();
  const draft = (digit: string) => `.svc-${digit.repeat(8)}-aaaa-4aaa-8aaa-aaaaaaaaaaaa`;
  const [old, young, own] = [draft('1'), draft('2'), '.svc-notes'];
  for (const name of [old, young, own]) writeFileSync(join(notes, name), 'half');
  const before = Date.now() / 1000 - 7200;
  for (const name of [old, own]) utimesSync(join(notes, name), before, before);
  assert.is((await use('write', { path: 'a.md', content: 'whole' })).is_error, false);
  assert.equal(
    readdirSync(notes)
      .filter((name) => name.startsWith('.svc-'))
      .sort(),
    [young, own],
  );
});

test('edits of one file at the same time are all kept', async () => {
  const { use, notes } = await bootFolders();
  const words = Array.from({ length: 20 }, (_, index) => `word-${index};`);
  writeFileSync(join(notes, 'a.md'), words.join(''));
  const edits = words.map((word) =>
    use('edit', { path: 'a.md', old: word, new: word.toUpperCase() }),
  );
  assert.equal(
    (await Promise.all(edits)).filter(({ is_error }) => is_error),
    [],
  );
  assert.is(readFileSync(join(notes, 'a.md'), 'utf8'), words.join('').toUpperCase());
});

test('pipes and binary files are said, and no call waits for them', async () => {
  const { use, notes } = await bootFolders();
  execFileSync('mkfifo', [join(notes, 'pipe')]);
  writeFileSync(join(notes, 'bin'), Buffer.from([1, 0, 2]));
  writeFileSync(join(notes, 'latin'), Buffer.from([0x67, 0xfc]));
  await refused(use('read', { path: 'pipe' }), /no plain file/);
  await refused(use('write', { path: 'pipe', content: 'x' }), /no plain file/);
  await refused(use('read', { path: 'bin' }), /is not text: it has 3 bytes/);
  await refused(use('edit', { path: 'latin', old: 'g', new: 'h' }), /is not text/);
  const { text } = await use('search', { text: 'two' });
  assert.match(text, /\[2 were left out: too large, no text, of several names, or not readable\]$/);
});

test('sizes, results and searches have bounds', async () => {
  const { use, notes } = await bootFolders({
    limits: {
      file_tool_bytes: 1000,
      file_tool_entries: 10,
      file_tool_matches: 5,
      mcp_result_bytes: 1024,
    },
  });
  writeFileSync(join(notes, 'big'), 'x'.repeat(1001));
  await refused(use('read', { path: 'big' }), /has 1001 bytes; 1000 is the most/);
  await refused(use('write', { path: 'a.md', content: 'x'.repeat(1001) }), /1000 is the most/);
  await refused(use('edit', { path: 'a.md', old: 'one', new: 'x'.repeat(1000) }), /the most/);
  mkdirSync(join(notes, 'many'));
  for (let index = 0; index < 30; index += 1)
    writeFileSync(join(notes, 'many', `f${index}`), 'same\n'.repeat(30));
  const { text } = await use('list', { path: 'many' });
  assert.match(text, /has 10 entries;.* there are more than 10 names/);
  const found = await use('search', { text: 'same' });
  assert.match(found.text, /\[The search ended early, after 5 lines/);
  assert.match(found.text, /\[2 were left out/);
  mkdirSync(join(notes, 'some'));
  const lines = async (count: number) => {
    writeFileSync(join(notes, 'some', 'edge'), 'edge\n'.repeat(count));
    const { text } = await use('search', { text: 'edge', path: 'some' });
    return text.split('\n').filter((line) => !line.startsWith('[')).length;
  };
  assert.equal([await lines(4), await lines(5), await lines(6)], [4, 5, 5]);
  const late = await bootFolders({ limits: { file_tool_ms: 0 } });
  assert.match((await late.use('search', { text: 'x' })).text, /ended early/);
});

test('a run reads at once, and writes once a person has allowed it', async () => {
  const { servers, notes } = await bootFolders();
  const local = callingModel(
    [['x__read', JSON.stringify({ path: 'a.md' })]],
    [['x__write', JSON.stringify({ path: 'out.md', content: 'done' })]],
  );
  const { runtime, kernel } = await bootRuntime({ local, servers });
  atEnd(() => kernel.close());
  const { id } = await runtime.runs.start({ prompt: 'copy', tool_servers: ['x'] }, 'test');
  await waitFor('the approval', () => runtime.approvals.list().some((one) => one.id === `${id}.2`));
  assert.not.ok(existsSync(join(notes, 'out.md')));
  await runtime.approvals.decide(`${id}.2`, { decision: 'allow' }, 'me');
  await settled(kernel, id);
  assert.is(readFileSync(join(notes, 'out.md'), 'utf8'), 'done');
  const { tool_calls } = await runtime.runs.get(id);
  assert.match(tool_calls?.[0]?.result ?? '', /^one\ntwo two/);
});

test.run();
