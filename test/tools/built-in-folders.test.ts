import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  promises as fs,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { atEnd, bootFolders, leaveFolders, refused, soon } from '../helpers/file-tools.ts';

/** The tool svc:files: what it must never reach. */

test.after.each(leaveFolders);

const { realpath } = fs;

test('nothing outside: dots, whole paths, links, and names that look alike', async () => {
  const { use, notes, around } = await bootFolders();
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
  const { use, notes } = await bootFolders();
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
  const { servers, write, notes } = await bootFolders();
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
  const { use, write } = await bootFolders();
  write({ x: { type: 'svc:files', folders: ['/'] } });
  for (const path of ['/proc/1/environ', '/dev/zero', '/sys/kernel', '/proc'])
    await refused(use('read', { path }), /closed to tools/);
  assert.match((await use('list', {})).text, /^\/ has \d+ entries/);
});

test('a link that comes between the check and the use leads nowhere', async () => {
  const { use, notes, around } = await bootFolders();
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
  const { use, notes, around } = await bootFolders();
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
  atEnd(async () => {
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
  const { use, notes, around } = await bootFolders();
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
  const { use, notes, around } = await bootFolders();
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
  const { use, notes } = await bootFolders();
  mkdirSync(join(notes, '.git'));
  writeFileSync(join(notes, '.git', 'config'), 'SECRET');
  for (const name of ['token', 'token/x', 'absent', 'absent/x'])
    assert.is((await use('read', { path: `own/${name}` })).text, `own/${name} is closed to tools.`);
  for (const name of ['config', 'config/x', 'absent', 'absent/x'])
    await refused(use('read', { path: `.git/${name}` }), /has a name that begins with a dot/);
});

test.run();
