import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  promises as fs,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { ToolResult } from '../../src/mcp/port.ts';
import { callingModel, settled } from '../helpers/calling-model.ts';
import { bootRuntime } from '../helpers/runtime.ts';
import { bootToolServers, type ToolServersHarness } from '../helpers/tool-servers.ts';
import { waitFor } from '../helpers/wait.ts';

/** The tool svc:files: what it does, and what it must never reach. */

const ends: (() => Promise<unknown> | unknown)[] = [];
test.after.each(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

const { realpath } = fs;
const soon = () => AbortSignal.timeout(60_000);

interface Box extends ToolServersHarness {
  /** The given folder, and the one around it. */
  notes: string;
  around: string;
  use(tool: string, args: object): Promise<ToolResult>;
}

async function boot(options: Parameters<typeof bootToolServers>[1] = {}): Promise<Box> {
  const around = await realpath(mkdtempSync(join(tmpdir(), 'svc-files-')));
  const notes = join(around, 'notes');
  mkdirSync(join(notes, 'deep'), { recursive: true });
  writeFileSync(join(notes, 'a.md'), 'one\ntwo two\nthree $& ü\n');
  writeFileSync(join(notes, 'deep', 'b.txt'), 'Two of them');
  writeFileSync(join(around, 'secret.txt'), 'SECRET');
  const closed = [join(notes, 'own')];
  mkdirSync(join(notes, 'own'));
  writeFileSync(join(notes, 'own', 'token'), 'SECRET');
  const x = { type: 'svc:files', folders: [notes] };
  const harness = await bootToolServers({ x }, { closed, ...options });
  ends.push(
    () => rmSync(around, { recursive: true, force: true }),
    () => harness.leave(),
  );
  const use = (tool: string, args: object) =>
    harness.servers.call('x', tool, args, { id: 'c', signal: soon(), timeout_ms: 60_000 });
  return { ...harness, notes, around, use };
}

async function refused(call: Promise<ToolResult>, why: RegExp): Promise<void> {
  const { text, is_error } = await call;
  assert.ok(is_error, text);
  assert.match(text, why);
  assert.not.match(text, /SECRET|\/proc\/self/);
}

test('it is a server like others: states, annotations, policies', async () => {
  const { servers, events, notes } = await boot();
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

test('other folders are another tool, and trust can be taken from it', async () => {
  const { servers, write, notes, around } = await boot();
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
  const { use, notes } = await boot();
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
  await refused(use('read', { path: 'a.md/x' }), /no folder/);
  await refused(use('read', {}), /do not fit/);
  await refused(use('remove', { path: 'a.md' }), /There is no remove/);
});

test('write and edit: whole, at once, with the mode of the file', async () => {
  const { use, notes } = await boot();
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
  const { notes, use } = await boot();
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
  const { use, notes } = await boot();
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

test('nothing outside: dots, whole paths, links, and names that look alike', async () => {
  const { use, notes, around } = await boot();
  mkdirSync(join(around, 'notes-2'));
  writeFileSync(join(around, 'notes-2', 'x'), 'SECRET');
  symlinkSync(around, join(notes, 'up'));
  symlinkSync(join(around, 'secret.txt'), join(notes, 'link.txt'));
  symlinkSync(join(around, 'absent.txt'), join(notes, 'dangling'));
  symlinkSync('loop', join(notes, 'loop'));
  const paths = ['../secret.txt', join(around, 'secret.txt'), 'deep/../../secret.txt'];
  paths.push('../notes-2/x', 'up/secret.txt', 'link.txt', '/etc/passwd', 'up/notes-2/x');
  for (const path of paths) {
    await refused(use('read', { path }), /in none of the given folders/);
    await refused(use('edit', { path, old: 'SECRET', new: 'x' }), /in none of the given folders/);
    await refused(use('write', { path, content: 'x' }), /in none of the given folders/);
  }
  await refused(use('list', { path: '..' }), /in none/);
  await refused(use('search', { text: 'SECRET', path: 'up' }), /in none/);
  await refused(use('write', { path: 'dangling', content: 'x' }), /in none of the given folders/);
  await refused(use('read', { path: 'loop' }), /is a link/);
  await refused(use('read', { path: 'a\0.md' }), /cannot be used/);
  assert.not.ok(existsSync(join(around, 'absent.txt')));
  assert.is(readFileSync(join(around, 'secret.txt'), 'utf8'), 'SECRET');
  assert.is((await use('search', { text: 'SECRET' })).text, 'Nothing was found.');
});

test('hidden names and the folders of svc are closed, also through links and by search', async () => {
  const { use, notes } = await boot();
  mkdirSync(join(notes, '.git', 'hooks'), { recursive: true });
  writeFileSync(join(notes, '.git', 'config'), 'SECRET');
  symlinkSync('.git', join(notes, 'git'));
  symlinkSync('own', join(notes, 'ours'));
  for (const path of ['.git/config', 'git/config', '.git', '.new', 'deep/.x/y'])
    await refused(use('read', { path }), /begins with a dot/);
  await refused(use('write', { path: '.git/hooks/pre-commit', content: 'x' }), /begins with a dot/);
  for (const path of ['own/token', 'ours/token', 'own']) {
    await refused(use('read', { path }), /closed to tools/);
    await refused(use('write', { path, content: 'x' }), /closed to tools/);
  }
  await refused(use('list', { path: 'own' }), /closed to tools/);
  assert.is((await use('search', { text: 'SECRET' })).text, 'Nothing was found.');
  assert.is((await use('search', { file: 'token' })).text, 'Nothing was found.');
});

test('a folder of svc, of the system, or none, starts no tool', async () => {
  const { servers, write, notes } = await boot();
  for (const [folder, why] of [
    [join(notes, 'own'), /closed to tools/],
    [join(notes, 'absent'), /There is no folder/],
    [join(notes, 'a.md'), /There is no folder/],
    ['/proc/self', /closed to tools/],
  ] as const) {
    write({ x: { type: 'svc:files', folders: [folder] } });
    const thrown = await servers.tools('x', soon()).catch((error: Error) => error);
    assert.match((thrown as Error).message, why);
  }
});

test('the whole disk as a folder: neither processes nor devices', async () => {
  const { use, write } = await boot();
  write({ x: { type: 'svc:files', folders: ['/'] } });
  for (const path of ['/proc/1/environ', '/dev/zero', '/sys/kernel', '/proc'])
    await refused(use('read', { path }), /closed to tools/);
  assert.match((await use('list', {})).text, /^\/ has \d+ entries/);
});

test('pipes and binary files are said, and no call waits for them', async () => {
  const { use, notes } = await boot();
  execFileSync('mkfifo', [join(notes, 'pipe')]);
  writeFileSync(join(notes, 'bin'), Buffer.from([1, 0, 2]));
  writeFileSync(join(notes, 'latin'), Buffer.from([0x67, 0xfc]));
  await refused(use('read', { path: 'pipe' }), /no plain file/);
  await refused(use('write', { path: 'pipe', content: 'x' }), /no plain file/);
  await refused(use('read', { path: 'bin' }), /is no text: it has 3 bytes/);
  await refused(use('edit', { path: 'latin', old: 'g', new: 'h' }), /is no text/);
  const { text } = await use('search', { text: 'two' });
  assert.match(text, /\[2 were left out: too large, no text, of several names, or not readable\]$/);
});

test('sizes, results and searches have bounds', async () => {
  const { use, notes } = await boot({
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
  const late = await boot({ limits: { file_tool_ms: 0 } });
  assert.match((await late.use('search', { text: 'x' })).text, /ended early/);
});

test('a link that comes between the check and the use leads nowhere', async () => {
  const { use, notes, around } = await boot();
  const deep = join(notes, 'deep');
  const swap = (path: string, to: string) => () => {
    renameSync(path, `${path}.away`);
    symlinkSync(to, path);
  };
  const back = (path: string) => {
    rmSync(path);
    renameSync(`${path}.away`, path);
  };
  mkdirSync(join(around, 'other'));
  writeFileSync(join(around, 'other', 'b.txt'), 'SECRET');
  const uses: [string, object][] = [
    ['read', { path: 'deep/b.txt' }],
    ['edit', { path: 'deep/b.txt', old: 'SECRET', new: 'x' }],
    ['write', { path: 'deep/b.txt', content: 'x' }],
    ['write', { path: 'deep/new.txt', content: 'x' }],
    ['list', { path: 'deep' }],
    ['search', { path: 'deep', text: 'SECRET' }],
  ];
  const links: [string, string][] = [
    [deep, join(around, 'other')],
    [notes, around],
    [join(deep, 'b.txt'), join(around, 'other', 'b.txt')],
  ];
  for (const [tool, args] of uses)
    for (const [path, to] of links) {
      await use('list', {});
      const act = swap(path, to);
      let isDone = false;
      fs.realpath = (async (asked: string) => {
        const found = await realpath(asked).catch((error: unknown) => error);
        if (!isDone) act();
        isDone = true;
        if (found instanceof Error) throw found;
        return found;
      }) as typeof realpath;
      const { text } = await use(tool, args).finally(() => {
        fs.realpath = realpath;
      });
      assert.ok(isDone);
      assert.not.match(text, /SECRET|\/proc\/self/, `${tool} ${path}`);
      assert.is(readFileSync(join(around, 'other', 'b.txt'), 'utf8'), 'SECRET');
      assert.equal(readdirSync(join(around, 'other')), ['b.txt']);
      assert.equal(
        readdirSync(around).filter((name) => name === 'deep' || name === 'new.txt'),
        [],
      );
      if (statSync(`${path}.away`, { throwIfNoEntry: false }) !== undefined) back(path);
      rmSync(join(deep, 'new.txt'), { force: true });
      writeFileSync(join(deep, 'b.txt'), 'Two of them');
    }
});

test('a program that swaps a folder and a link all the time gets nothing out', async () => {
  const { use, notes, around } = await boot();
  mkdirSync(join(around, 'other'));
  writeFileSync(join(around, 'other', 'b.txt'), 'SECRET');
  symlinkSync(join(around, 'other'), join(around, 'link'));
  const deep = join(notes, 'deep');
  // A write makes a missing folder, which is then in the way.
  const code = `
    const { renameSync, rmSync } = require('node:fs');
    const [deep, link, aside] = process.argv.slice(1);
    const tried = (work) => {
      try {
        work();
        return true;
      } catch {
        return false;
      }
    };
    const come = (from) => {
      while (!tried(() => renameSync(from, deep)))
        tried(() => rmSync(deep, { recursive: true, force: true }));
    };
    console.log('begins');
    for (;;) {
      renameSync(deep, aside);
      come(link);
      renameSync(deep, link);
      come(aside);
    }`;
  const places = [deep, join(around, 'link'), join(around, 'aside')];
  const swapper = spawn(process.execPath, ['-e', code, ...places], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const gone = once(swapper, 'exit');
  ends.push(async () => {
    swapper.kill('SIGKILL');
    await gone;
  });
  await once(swapper.stdout, 'data');
  const texts = new Set<string>();
  for (let index = 0; index < 300; index += 1) {
    texts.add((await use('read', { path: 'deep/b.txt' })).text);
    await use('write', { path: 'deep/c.txt', content: 'x' });
    texts.add((await use('search', { text: 'e', path: '.' })).text);
  }
  for (const text of texts) assert.not.match(text, /SECRET/);
  assert.ok(texts.size > 1, 'it was swapped');
  assert.equal(readdirSync(join(around, 'other')), ['b.txt']);
});

test('a file with several names is neither read nor written, also where it gets them meanwhile', async () => {
  const { use, notes, around } = await boot();
  linkSync(join(around, 'secret.txt'), join(notes, 'hard.txt'));
  const path = 'hard.txt';
  const why = /hard\.txt has 2 names, as hard links\. One may be outside the folders/;
  const uses: [string, object][] = [
    ['read', { path }],
    ['read', { path, line: 1, lines: 1 }],
    ['edit', { path, old: 'SECRET', new: 'x' }],
    ['write', { path, content: 'mine' }],
  ];
  for (const [tool, args] of uses) await refused(use(tool, args), why);
  assert.is(
    (await use('search', { text: 'SECRET' })).text,
    'Nothing was found.\n[1 were left out: too large, no text, of several names, or not readable]',
  );
  assert.match((await use('search', { file: 'hard' })).text, /hard\.txt$/);
  assert.is(readFileSync(join(around, 'secret.txt'), 'utf8'), 'SECRET');
  rmSync(join(notes, path));
  // The name is free at the check, and a second name of a secret when it is opened.
  writeFileSync(join(notes, path), 'free');
  const { open } = fs;
  fs.open = (async (asked: string, ...rest: [number]) => {
    if (asked.endsWith(`/${path}`)) {
      rmSync(join(notes, path));
      linkSync(join(around, 'secret.txt'), join(notes, path));
    }
    return open(asked, ...rest);
  }) as typeof open;
  await refused(use('read', { path }), why).finally(() => {
    fs.open = open;
  });
});

test('no answer shows what is outside: neither by its text, nor by asking the disk', async () => {
  const { use, notes, around } = await boot();
  mkdirSync(join(around, 'shut'), { mode: 0o000 });
  symlinkSync(around, join(notes, 'up'));
  symlinkSync('loop', join(around, 'loop'));
  symlinkSync(join(around, 'secret.txt'), join(notes, 'to'));
  symlinkSync(join(around, 'absent.txt'), join(notes, 'to-absent'));
  const there = ['secret.txt', 'secret.txt/x', 'shut', 'shut/x', 'loop', 'loop/x', 'notes-not'];
  const paths = there.flatMap((name) => [`../${name}`, join(around, name), `up/${name}`]);
  paths.push('/etc/passwd', '/etc/passwd/x', '/etc/nopasswd/x', '/', 'to', 'to/x', 'to-absent');
  paths.push('to-absent/x', `../${'x'.repeat(5000)}`, '../a\0', '/root/.ssh/id', 'up');
  const asked: string[] = [];
  const real = { ...fs };
  const spied = ['realpath', 'lstat', 'stat', 'open', 'opendir', 'readlink', 'mkdir'] as const;
  for (const name of spied)
    Object.assign(fs, {
      [name]: (path: string, ...rest: []) => {
        asked.push(path);
        return (real[name] as (...all: unknown[]) => unknown)(path, ...rest);
      },
    });
  try {
    for (const path of paths)
      for (const [tool, more] of [
        ['read', {}],
        ['list', {}],
        ['search', { text: 'SECRET' }],
        ['edit', { old: 'SECRET', new: 'x' }],
        ['write', { content: 'x' }],
      ] as const) {
        const { text, is_error } = await use(tool, { path, ...more });
        assert.ok(is_error);
        assert.is(text, `${path} is in none of the given folders: ${notes}.`, tool);
      }
  } finally {
    Object.assign(fs, real);
  }
  const outside = asked.filter((path) => path.startsWith(around) && !path.startsWith(notes));
  assert.equal(outside, []);
});

test('no answer shows what is in closed folders and hidden names', async () => {
  const { use, notes } = await boot();
  mkdirSync(join(notes, '.git'));
  writeFileSync(join(notes, '.git', 'config'), 'SECRET');
  for (const name of ['token', 'token/x', 'absent', 'absent/x'])
    assert.is((await use('read', { path: `own/${name}` })).text, `own/${name} is closed to tools.`);
  for (const name of ['config', 'config/x', 'absent', 'absent/x'])
    await refused(use('read', { path: `.git/${name}` }), /has a name that begins with a dot/);
});

test('a run reads at once, and writes once a person has allowed it', async () => {
  const { servers, notes } = await boot();
  const local = callingModel(
    [['x__read', JSON.stringify({ path: 'a.md' })]],
    [['x__write', JSON.stringify({ path: 'out.md', content: 'done' })]],
  );
  const { runtime, kernel } = await bootRuntime({ local, servers });
  ends.push(() => kernel.close());
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
