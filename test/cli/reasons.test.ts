import * as assert from 'uvu/assert';
import { SvcError } from '../../src/errors.ts';
import { completed, run, suiteWithDaemon } from './fake-daemon.ts';

/** Why a run failed, and what follows. */
const test = suiteWithDaemon('reasons of failed runs');

test('a failed default provider is said to be the default, unless the run names it', async ({
  home,
  daemon,
}) => {
  daemon.on('provider.list', ({ result }) =>
    result({ providers: [{ id: 'far', default: true, credential: 'none' }] }),
  );
  const error = new SvcError('provider_unauthorised').body();
  daemon.on('run.start', ({ event, result }) => {
    event({ run });
    result({ ...run, state: 'failed', provider: 'far', error });
  });
  const said = /far was called because it is your default provider.*\n.*svc provider default local/;
  for (const args of [[], ['-m', 'qwen3:0.6b']])
    assert.match((await home.svc(['run', 'p', ...args])).stderr, said);
  for (const args of [['-p', 'far'], ['-m', 'far/m'], ['--cloud']])
    assert.not.match((await home.svc(['run', 'p', ...args])).stderr, said);
});

test('an empty answer is asked for again without a count of attempts', async ({ home, daemon }) => {
  const at = new Date().toISOString();
  const accepted = { max_attempts: 3, request: { max_tokens: null } };
  daemon.on('run.start', ({ event, result }) => {
    const failed = (attempt: number, code: string) =>
      event({
        seq: attempt + 1,
        at,
        type: 'run.attempt_failed',
        data: { attempt, error: { code, message: `Said ${code}.` }, retry_at: Date.parse(at) },
      });
    event({ run });
    event({ seq: 1, at, type: 'run.accepted', data: accepted });
    failed(1, 'answer_empty');
    failed(2, 'provider_failed');
    result(completed('fine'));
  });
  const { stderr } = await home.svc(['run', 'p']);
  assert.match(stderr, /Said answer_empty\. Trying again\.$/m);
  assert.match(stderr, /Said provider_failed\. Trying again \(3 of 3\)\.$/m);
});

test.run();
