import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type HomeProblem, homeFiles } from '../../src/daemon/home-files.ts';
import { type Home, makeHome } from '../helpers/svc.ts';

const test = suite<{ home: Home }>('the files of a home');

test.before.each((context) => {
  context.home = makeHome();
});
test.after.each(({ home }) => home.close());

/** Root uses any file. Without these rights it meets what a user meets. */
const AS_USER =
  process.getuid?.() === 0
    ? ['setpriv', '--bounding-set=-dac_override,-dac_read_search', '--']
    : [];
const hasUser =
  AS_USER.length === 0 || spawnSync(AS_USER[0] ?? '', [...AS_USER.slice(1), 'true']).status === 0;
const asUser = hasUser ? test : test.skip;

const AWAY = 'Move it away; svc makes a new one when it starts.';
const BACKUP = 'Move it away, and put the one of a backup in its place.';
const FILES = {
  open: ['logs/stderr.txt', 'data/upgrade', 'data/lock', 'data/token', 'data/secret'],
  tokens: ['data/tokens.json'],
  log: ['data/events.high-water', 'data/events.db', 'data/events.db-wal', 'data/events.db-journal'],
  replace: ['data/lock-journal', 'runtime.json', 'data/events.db-shm', 'data/events.reserve'],
  later: ['data/sessions.json', 'logs/svc.log'],
};
const FOLDERS = {
  open: ['logs', 'data/models', 'cache'],
  later: ['data/keys', 'data/sign-in', 'data/adapters'],
};

asUser('each file of a home that cannot be used is named, with the reason and what to do', () => {
  const script = fileURLToPath(new URL('./home-files-process.ts', import.meta.url));
  const [command = '', ...args] = [...AS_USER, process.execPath, ...process.execArgv, script];
  const { stdout, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  const found = JSON.parse(stdout || '[]') as {
    name: string;
    damage: string;
    problems: HomeProblem[];
  }[];
  assert.ok(found.length > 200, stderr);
  const said = (name: string, damage: string) =>
    found
      .filter((one) => one.name === name && one.damage === damage)
      .map(({ problems }) => problems.map(({ stops, message, hint }) => [stops, message, hint]))[0];
  const groups = Object.entries(FILES).flatMap(([use, names]) =>
    names.map((name) => ({ use, name })),
  );
  for (const { use, name } of groups) {
    const away = use === 'log' || use === 'tokens' ? BACKUP : AWAY;
    const file = `~/${name}`;
    const stops = use !== 'later';
    assert.equal(
      said(name, 'unreadable'),
      [
        [
          stops && use !== 'replace',
          `${file} cannot be used: permission denied (EACCES).`,
          `Run: chown "$USER" ${file}; chmod 600 ${file}`,
        ],
      ],
      name,
    );
    assert.equal(said(name, 'folder'), [
      [stops, `${file} is a folder; svc needs a file there.`, away],
    ]);
    assert.equal(said(name, 'loop'), [
      [stops, `${file} cannot be used: it is a link that leads to itself (ELOOP).`, away],
    ]);
    assert.equal(said(name, 'lost'), [[stops, `${file} is a broken link.`, away]]);
  }
  for (const [use, names] of Object.entries(FOLDERS))
    for (const name of names) {
      const stops = use === 'open';
      for (const damage of ['empty', 'cut', 'garbage'])
        assert.equal(
          said(name, damage),
          [[stops, `~/${name} is not a folder; svc needs a folder there.`, AWAY]],
          name,
        );
      assert.equal(said(name, 'folder'), []);
    }
  const damaged = (name: string, effect: string) => [
    [
      false,
      `~/${name} is damaged, so a start makes a new one. ${effect}`,
      'To keep the old one, put it back from a backup before the start.',
    ],
  ];
  for (const damage of ['empty', 'cut', 'garbage']) {
    assert.equal(
      said('data/token', damage),
      damaged('data/token', 'Programs with the old one are refused then.'),
    );
    assert.equal(
      said('data/secret', damage),
      damaged('data/secret', 'A request that is repeated by its key may be refused then.'),
    );
    assert.equal(said('data/tokens.json', damage), [
      [
        true,
        'The list of tokens ~/data/tokens.json cannot be read: it is damaged.',
        'Restore it from a backup. Or delete it, and create the tokens again with: ' +
          'svc token create',
      ],
    ]);
    assert.equal(
      said('data/lock', damage),
      damage === 'empty' ? [] : [[true, '~/data/lock is not a lock of svc.', AWAY]],
    );
    // Their content is checked where they are opened.
    for (const name of [...FILES.log, ...FILES.replace, ...FILES.later])
      assert.equal(said(name, damage), [], name);
  }
  assert.match(JSON.stringify(said('data/node.json', 'cut')), 'it was not written by svc');
  const known = [...groups.map(({ name }) => name), ...Object.values(FOLDERS).flat()];
  const others = new Set(found.map(({ name }) => name).filter((name) => !known.includes(name)));
  assert.equal([...others].sort(), ['data/node.json', 'svc.sock']);
});

/** What a daemon makes that a start does not need, or that is opened as a part of a folder. */
const OTHERS = ['config.json', 'models.json', 'models.json.lock', 'data/origins', 'data/mcp'];

test('what a daemon leaves in its home is in the list', async ({ home }) => {
  await home.svc(['start']);
  await home.svc(['token', 'create', '--name', 'ci']);
  await home.svc(['model', 'alias', 'small', 'svc-mini']);
  const { pid } = JSON.parse((await home.svc(['status', '--json'])).stdout) as { pid: number };
  process.kill(pid, 'SIGKILL');
  const listed = homeFiles(home.paths, false).map(({ path }) => relative(home.folder, path));
  const here = [home.folder, home.paths.data].flatMap((folder) =>
    readdirSync(folder).map((name) => relative(home.folder, join(folder, name))),
  );
  assert.ok(here.includes('data/events.db-wal') && here.includes('data/tokens.json'), here.join());
  assert.equal(
    here.filter((name) => !listed.includes(name) && !OTHERS.includes(name)),
    [],
  );
});

test('a start says that the token was cut, and that mcp.json is damaged, and so does the status', async ({
  home,
}) => {
  await home.svc(['start']);
  await home.svc(['stop']);
  const { token } = home.paths;
  writeFileSync(token, 'cut');
  const mcp = join(home.folder, 'mcp.json');
  writeFileSync(mcp, '{"mcpServers": {');
  const start = await home.svc(['start']);
  assert.is(start.code, 0, start.stderr);
  for (const { stderr } of [start, await home.svc(['status'])]) {
    const said = stderr.replaceAll(/\s+/g, ' ');
    assert.match(said, `${token} is damaged, so a start makes a new one. Programs with the old`);
    assert.match(said, `The tool servers are left out: ${mcp}:1:17: `);
  }
  writeFileSync(mcp, '{}');
  assert.not.match((await home.svc(['status'])).stderr, 'tool servers');
});

asUser(
  'a start that may not use the WAL, the token or its logs says so, and the doctor too',
  async ({ home }) => {
    await home.svc(['start'], { wrapper: AS_USER });
    const { pid } = JSON.parse((await home.svc(['status', '--json'])).stdout) as { pid: number };
    process.kill(pid, 'SIGKILL');
    const { token, database } = home.paths;
    for (const file of [token, `${database}-wal`]) {
      spawnSync('chmod', ['0', file]);
      const start = await home.svc(['start'], { wrapper: AS_USER });
      assert.equal(
        [start.code, start.stderr],
        [
          6,
          `error: ${file} cannot be used: permission denied (EACCES).\n` +
            `hint: Run: chown "$USER" ${file}; chmod 600 ${file}\n`,
        ],
      );
      const doctor = await home.svc(['doctor', '--json'], { wrapper: AS_USER });
      assert.match(doctor.stdout, `${file} cannot be used: permission denied (EACCES).`);
      assert.is(doctor.code, 1);
      spawnSync('chmod', ['600', file]);
    }
    const { logs, stderr } = home.paths;
    spawnSync('chmod', ['0', logs]);
    const refused = await home.svc(['start'], { wrapper: AS_USER });
    assert.is(refused.code, 6);
    assert.match(
      refused.stderr,
      `error: ${stderr} cannot be written: permission denied (EACCES).\nhint: Run: chown`,
    );
    spawnSync('chmod', ['700', logs]);
    rmSync(stderr);
    symlinkSync('stderr.txt', stderr);
    assert.equal((await home.svc(['start'])).stderr.split('\n').slice(0, 2), [
      `error: ${stderr} cannot be written: it is a link that leads to itself (ELOOP).`,
      `hint: ${AWAY}`,
    ]);
    rmSync(stderr);
    assert.is((await home.svc(['start'], { wrapper: AS_USER })).code, 0);
  },
);

test('the doctor says that others can read the tokens, and changes nothing', async ({ home }) => {
  const { tokens } = home.paths;
  mkdirSync(dirname(tokens), { recursive: true, mode: 0o700 });
  writeFileSync(tokens, '{"tokens":[]}');
  chmodSync(tokens, 0o644);
  for (let times = 0; times < 2; times += 1) {
    const { stdout } = await home.svc(['doctor', '--json']);
    assert.match(stdout, `chmod 600 ${tokens}`);
    assert.is(statSync(tokens).mode & 0o777, 0o644);
  }
});

test.run();
