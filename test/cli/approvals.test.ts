import * as assert from 'uvu/assert';
import { SvcError } from '../../src/errors.ts';
import { suiteWithDaemon } from './fake-daemon.ts';

/** What svc approvals prints, and which call it decides. */
const test = suiteWithDaemon('svc approvals');

const call = {
  id: 'run_1.1',
  run: 'run_1',
  server: 'git',
  tool: 'git_add',
  target: 'npx -y server-git',
  description: null,
  arguments: '{"path":"a"}',
  changes: null,
  state: 'requested',
  since: '2026-01-02T03:04:05.000Z',
  until: null,
};
const THREE =
  'svc approvals repeat run_1.1, or svc approvals skip run_1.1, or ' +
  'svc approvals result run_1.1 <text>';

test('list names the commands of each kind of call that waits', async ({ home, daemon }) => {
  const lost = { ...call, id: 'run_2.1', state: 'lost' };
  daemon.on('approval.list', ({ result }) => result({ approvals: [call, lost, call] }));
  const { stdout, stderr } = await home.svc(['approvals', 'list']);
  assert.match(stdout, /npx -y server-git/);
  assert.is(
    stderr,
    'For an approval: svc approvals allow <id>, or svc approvals deny <id>\n' +
      'For a decision: svc approvals repeat <id>, or svc approvals skip <id>, or ' +
      'svc approvals result <id> <text>\n',
  );
});

test('allow of a call that was cut off names its three commands', async ({ home, daemon }) => {
  const message = 'decision must be repeat, result or skip.';
  daemon.on('approval.get', ({ result }) => result({ ...call, state: 'lost' }));
  daemon.on('approval.decide', ({ error }) =>
    error(new SvcError('invalid_request', message, { param: 'decision' }).body()),
  );
  const { code, stderr } = await home.svc(['approvals', 'allow', 'run_1.1']);
  assert.equal([code, stderr], [2, `error: ${message}\nhint: Decide: ${THREE}\n`]);
  assert.match((await home.svc(['approvals', 'show', 'run_1.1'])).stderr, `Decide: ${THREE}`);
});

test('last is the one call that waits', async ({ home, daemon }) => {
  let approvals: object[] = [];
  daemon.on('approval.list', ({ result }) => result({ approvals }));
  daemon.on('approval.get', ({ params, result }) => result({ ...call, ...params }));
  daemon.on('approval.decide', ({ params, result }) => result({ ...call, id: params.id }));
  const none = await home.svc(['approvals', 'allow', 'last']);
  assert.is(none.code, 2);
  assert.match(none.stderr, /^error: No call of a tool waits for you\.\n/);
  approvals = [call];
  assert.match((await home.svc(['approvals', 'show', 'last'])).stdout, /^run {4}run_1\n/);
  assert.is((await home.svc(['approvals', 'allow', 'last'])).stdout, 'git/git_add is allowed.\n');
  approvals = [call, { ...call, id: 'run_2.1' }];
  const { code, stderr } = await home.svc(['approvals', 'allow', 'last']);
  assert.is(code, 2);
  assert.match(
    stderr,
    /2 calls wait for you, so "last" names none\.\nhint: Name one: run_1\.1, run_2\.1\n/,
  );
  const decided = daemon.asked.filter(({ method }) => method === 'approval.decide');
  assert.equal(
    decided.map(({ params }) => params),
    [{ id: 'run_1.1', decision: 'allow' }],
  );
});

test('allow --always names the server, and how to undo it', async ({ home, daemon }) => {
  daemon.on('approval.decide', ({ result }) => result(call));
  const { stdout, stderr } = await home.svc(['approvals', 'allow', 'run_1.1', '--always']);
  assert.is(stdout, 'git/git_add is allowed.\n');
  assert.is(
    stderr,
    'git/git_add of npx -y server-git is allowed from now on. ' +
      'To undo it: svc mcp set git --tool git_add=ask\n',
  );
});

test.run();
