import * as assert from 'uvu/assert';
import { followRun } from '../../src/cli/run/follow.ts';
import { SvcError } from '../../src/errors.ts';
import { completed, type Method, run, suiteWithDaemon } from './fake-daemon.ts';

/** A new run whose daemon other commands stop before it has the run. */
const test = suiteWithDaemon('the first start for a run');

const stopping: Method = ({ error }) => error(new SvcError('daemon_stopping').body());
const dies: Method = ({ hangUp }) => hangUp();
const answers: Method = ({ event, result }) => {
  event({ run });
  result(completed('hello'));
};

for (const [name, replies, starts] of [
  ['at once', [answers], []],
  ['twice', [stopping, stopping, answers], ['absent', 'absent']],
  ['after one that died', [dies, stopping, answers], ['lost', 'absent']],
  ['again and again', Array(5).fill(stopping), ['absent', 'absent', 'absent']],
] as const)
  test(`a daemon is started for it: ${name}`, async ({ home, daemon }) => {
    const left = [...replies];
    daemon.on('run.start', (reply) => left.shift()?.(reply));
    const started: string[] = [];
    const ended = await followRun({
      what: { start: { prompt: 'p', idempotency_key: 'k' } },
      paths: home.paths,
      cancel: new AbortController().signal,
      steps: { onOutput: () => undefined, onDiscard() {}, onDisconnect() {}, onReconnect() {} },
      startDaemon: async (reason) => void started.push(reason),
      patience: async () => 60_000,
    }).catch((error: SvcError) => error);
    assert.equal(started, starts);
    const end = ended instanceof SvcError ? ended.code : ended.state;
    assert.is(end, replies.at(-1) === answers ? 'completed' : 'daemon_stopping');
  });

test.run();
