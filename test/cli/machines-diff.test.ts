import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { createMachine } from 'xstate';
import { describe } from '../../machines/describe.ts';
import { differences } from '../../src/cli/upkeep/machines/diff.ts';
import { type Home, makeHome } from '../helpers/svc.ts';

const FILE = 'machines/diagrams/machines.json';
const made = (work: object, id = 'door') =>
  describe(createMachine({ id, initial: 'shut', states: { shut: {}, ...work } } as object));
const before = made({
  shut: {
    meta: { deadline: 'wait' },
    on: {
      'door.pushed': [{ target: 'open', guard: 'isFree' }, { target: 'stuck' }],
      'door.knocked': {},
    },
  },
  open: { tags: ['active'] },
  stuck: {},
});

const lines = (after: typeof before) =>
  differences([before], [after]).flatMap((one) => one.lines.map(({ sign, text }) => sign + text));

const test = suite<{ folder: string; home: Home }>('svc machines diff');
test.before((context) => {
  context.folder = mkdtempSync(join(tmpdir(), 'svc-diff-'));
  context.home = makeHome();
});
test.after(async ({ folder, home }) => {
  rmSync(folder, { recursive: true });
  await home.close();
});

test('a machine does not differ from itself', () => {
  assert.equal(differences([before], [before]), []);
});

test('states, tags, deadlines, effects, guards, targets and actions are compared', () => {
  const after = made({
    shut: {
      meta: { deadline: 'patience' },
      on: {
        'door.pushed': [{ target: 'open', guard: 'isOiled' }, { target: 'stuck' }],
        'door.knocked': { actions: 'answer' },
      },
    },
    open: { tags: ['ready'], entry: 'startPull' },
    locked: { type: 'final' },
    stuck: { on: { 'door.pushed': 'locked' } },
  });
  assert.equal(lines(after), [
    '-state shut; deadline / wait',
    '+state shut; deadline / patience',
    '-state open (active)',
    '+state open (ready); on entry / startPull',
    '+state locked (final)',
    '-shut: pushed [isFree] → open',
    '+shut: pushed [isOiled] → open',
    ' shut: pushed → stuck',
    '-shut: knocked',
    '+shut: knocked / answer',
    '+stuck: pushed → locked',
  ]);
});

test('the order of choices counts: the first guard that agrees decides', () => {
  const { name, initial, states, transitions } = before;
  const [first, second, ...others] = transitions;
  const after = { name, initial, states, transitions: [second, first, ...others] };
  assert.equal(lines(after as typeof before), [
    '-shut: pushed [isFree] → open',
    '-shut: pushed → stuck',
    '+shut: pushed → stuck',
    '+shut: pushed [isFree] → open',
  ]);
});

test('a machine that comes or goes is shown whole', () => {
  const [added, removed] = differences([before], [made({}, 'window')]);
  assert.equal([added?.machine, added?.change, removed?.change], ['window', 'added', 'removed']);
  assert.equal(added?.lines, [
    { sign: '+', text: 'begins in shut' },
    { sign: '+', text: 'state shut' },
  ]);
  assert.ok(removed?.lines.every(({ sign }) => sign === '-'));
});

test('files and commits are compared with the program and with each other', async ({
  folder,
  home,
}) => {
  const checkout = join(folder, 'checkout');
  mkdirSync(join(checkout, 'machines/diagrams'), { recursive: true });
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b.c', ...args], {
      cwd: checkout,
      stdio: 'ignore',
    });
  const commit = (name: string) => {
    git('add', '.');
    git('commit', '--allow-empty', '-m', name);
    git('branch', name);
  };
  git('init');
  commit('old');
  const now = await home.svc(['machines', '--json']);
  writeFileSync(join(checkout, FILE), now.stdout);
  commit('now');
  writeFileSync(join(checkout, FILE), JSON.stringify({ machines: [before] }));
  commit('door');
  const [same, other] = [join(folder, 'same.json'), join(folder, 'other.json')];
  writeFileSync(same, now.stdout);
  writeFileSync(other, '{"machines": [{"name": 1}]}');
  // Commits are looked for in the folder of the call.
  const ask = (...args: string[]) =>
    home.svc(['machines', 'diff', ...args], { wrapper: ['env', '-C', checkout] });
  assert.equal([(await ask('now')).code, (await ask(same)).code], [0, 0]);
  const changed = await ask('now', 'door');
  assert.is(changed.code, 1, changed.stderr);
  assert.match(changed.stdout, /^door \(added\)\n\+ begins in shut$/m);
  assert.match(changed.stdout, /^daemon \(removed\)$/m);
  const found = JSON.parse((await ask('door', same, '--json')).stdout).differences;
  assert.ok(found.some((one: { machine: string }) => one.machine === 'run'));
  for (const [place, message] of [
    ['old', /The commit "old" has no machines\/diagrams\/machines.json.*\n.*--json/],
    ['nothing', /There is no file and no commit "nothing" here.*\n.*diff main/],
    [other, /has no machines as svc machines --json writes them/],
    [join(checkout, '.git', 'HEAD'), /has no machines as svc machines --json/],
    ['machines', /no commit "machines"/],
  ] as const) {
    const outcome = await ask(place);
    assert.is(outcome.code, 2, place);
    assert.match(outcome.stderr, message);
  }
  for (const wrong of [[], ['--', '-x'], ['now', '--live'], ['now', 'door', 'third']])
    assert.is((await ask(...wrong)).code, 2, wrong.join(' '));
  assert.is((await home.svc(['machines', 'run', 'pull'])).code, 2);
});

test.run();
