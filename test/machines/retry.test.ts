import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { AnyMachineSnapshot } from 'xstate';
import {
  afterFailure,
  canResume,
  canRetry,
  isEmptyAnswer,
  mayResume,
  RETRY_FIRST_MS,
  RETRY_LONGEST_MS,
  retryDelay,
} from '../../machines/retry.ts';
import type { RunSnapshot } from '../../machines/run/chart.ts';
import type { RunContext } from '../../machines/run/context.ts';
import { init, isIn, step } from '../../machines/step.ts';
import { NOW } from './models/model.ts';
import { lasting, retryable, runModel } from './models/run.ts';

const model = runModel({
  recovery: 'resume',
  resumable: false,
  max_attempts: 3,
  max_losses: 2,
  outputs: 2,
  least: { states: 0, edges: 0, refused: 0 },
});
const context = (change: Partial<RunContext>): RunContext => ({
  ...(init(model.machine, model.created).snapshot as RunSnapshot).context,
  attempt: 1,
  ...change,
});

test('the wait doubles with each attempt, up to the longest', () => {
  assert.equal(
    [1, 2, 3, 4].map((attempt) => retryDelay(attempt)),
    [1, 2, 4, 8].map((times) => times * RETRY_FIRST_MS),
  );
  for (const attempt of [7, 8, 100, 1e9]) assert.is(retryDelay(attempt), RETRY_LONGEST_MS);
});

test('a provider may ask for a longer wait, never for a shorter one, and not for more than the longest', () => {
  assert.is(retryDelay(1, 2000), 2000);
  assert.is(retryDelay(3, 1), 4 * RETRY_FIRST_MS);
  assert.is(retryDelay(1, 3_600_000), RETRY_LONGEST_MS);
});

test('an empty answer is tried once more, unless emptiness is an answer', () => {
  const empty = { ...retryable, code: 'answer_empty' };
  assert.ok(canRetry(context({ failures: 0 }), empty));
  assert.not.ok(canRetry(context({ failures: 1 }), empty));
  assert.ok(canRetry(context({ failures: 1 }), retryable));
  const { request } = context({});
  const isEmpty = (change: object, finish_reason: 'stop' | 'length' | 'content_filter' = 'stop') =>
    isEmptyAnswer({ request: { ...request, provider: 'far', ...change } }, { finish_reason });
  assert.ok(isEmpty({}));
  assert.not.ok(isEmpty({ provider: 'local' }));
  assert.not.ok(isEmpty({ stop: ['END'] }));
  assert.not.ok(isEmpty({}, 'length'));
  assert.not.ok(isEmpty({}, 'content_filter'));
});

test('the jitter adds up to a quarter, never more than the longest wait', () => {
  assert.is(retryDelay(1, null, 1), 1.25 * RETRY_FIRST_MS);
  assert.is(retryDelay(2, 4000, 0.5), 4500);
  assert.is(retryDelay(100, null, 1), RETRY_LONGEST_MS);
  const event = afterFailure(context({}), retryable, NOW, { jitter: 1 });
  assert.is('retry_at' in event && event.retry_at, NOW + 1.25 * RETRY_FIRST_MS);
});

test('a wait that is longer than the longest ends a run of one target at once', () => {
  const options = { retry_after_ms: RETRY_LONGEST_MS + 15_000 };
  assert.equal(afterFailure(context({}), retryable, NOW, options), {
    type: 'run.failed',
    attempt: 1,
    error: {
      ...retryable,
      message: `${retryable.message} It asks for a wait of 45 s.`,
      retry_after_ms: 45_000,
    },
  });
  const own = afterFailure(context({}), retryable, NOW, { ...options, isOwnWait: true });
  assert.is(
    'error' in own && own.error.message,
    `${retryable.message} svc asks it again in 45 s.`,
    'nobody asked for this wait',
  );
  const passed = afterFailure(context({}), retryable, NOW, { ...options, leave: true });
  assert.is('error' in passed && passed.error.message, retryable.message);
  const longest = { retry_after_ms: RETRY_LONGEST_MS };
  assert.is(afterFailure(context({}), retryable, NOW, longest).type, 'run.attempt_failed');
  const next = { provider: 'near', model: 'm', cloud: false };
  const moved = afterFailure(context({ fallbacks: [next] }), retryable, NOW, options);
  assert.equal([moved.type, 'next' in moved && moved.next], ['run.attempt_failed', next]);
});

test('an answer of another model file is interrupted, and a run without output fails', () => {
  const error = { code: 'model_changed', message: 'Another file.', retryable: false };
  const begun = context({ recovery: 'resume', resumable: true, outputs: 1 });
  assert.equal(afterFailure(begun, error, NOW), { type: 'run.interrupted', error });
  const empty = afterFailure(context({}), error, NOW);
  assert.is(empty.type, 'run.failed');
});

test('a failure that can be retried, with nothing delivered and attempts left, leads to a wait', () => {
  assert.equal(afterFailure(context({}), retryable, NOW), {
    type: 'run.attempt_failed',
    attempt: 1,
    error: retryable,
    retry_at: NOW + RETRY_FIRST_MS,
  });
  const asked = afterFailure(context({ attempt: 2, failures: 1 }), retryable, NOW, {
    retry_after_ms: 5000,
  });
  assert.equal(asked, {
    type: 'run.attempt_failed',
    attempt: 2,
    error: { ...retryable, retry_after_ms: 5000 },
    retry_at: NOW + 5000,
  });
});

test('nothing is asked again once text was delivered', () => {
  assert.not.ok(canRetry(context({ outputs: 1 }), retryable));
  assert.equal(afterFailure(context({ outputs: 1 }), retryable, NOW), {
    type: 'run.failed',
    attempt: 1,
    error: retryable,
  });
});

test('work that was lost after text was delivered is an interruption; lost before, it is tried again or failed', () => {
  assert.equal(afterFailure(context({ outputs: 2 }), retryable, NOW, { lost: true }), {
    type: 'run.interrupted',
    error: retryable,
  });
  assert.is(afterFailure(context({}), retryable, NOW, { lost: true }).type, 'run.attempt_failed');
  assert.is(afterFailure(context({}), lasting, NOW, { lost: true }).type, 'run.failed');
});

test('work that is lost after output resumes if its provider and its policy allow, up to a limit', () => {
  const lost = (change: Partial<RunContext>) =>
    afterFailure(context({ outputs: 2, resumable: true, ...change }), retryable, NOW, {
      lost: true,
      computing: 1,
    }).type;
  assert.is(lost({}), 'run.suspended');
  assert.is(lost({ recovery: 'restart' }), 'run.suspended');
  assert.is(lost({ recovery: 'end' }), 'run.interrupted');
  assert.is(lost({ deaths: 1 }), 'run.suspended');
  assert.is(lost({ deaths: 2 }), 'run.interrupted');
  assert.is(
    afterFailure(context({ outputs: 2, resumable: true }), retryable, NOW).type,
    'run.suspended',
    'it was resumed, and could not start',
  );
  assert.is(
    afterFailure(context({ outputs: 2, resumable: true }), lasting, NOW).type,
    'run.failed',
  );
  assert.is(afterFailure(context({ outputs: 2 }), retryable, NOW).type, 'run.failed');
});

test('the policy, the provider, the output and the deaths decide whether a run resumes', () => {
  assert.ok(mayResume(context({})));
  assert.not.ok(mayResume(context({ outputs: 1 })));
  assert.ok(mayResume(context({ outputs: 1, resumable: true })));
  assert.ok(mayResume(context({ outputs: 1, recovery: 'restart' })));
  for (const change of [{ recovery: 'end' as const }, { content_kept: false }])
    assert.not.ok(mayResume(context({ resumable: true, ...change })));
  for (const change of [{ deaths: 2 }, { max_losses: 0 }]) {
    const dying = context({ resumable: true, ...change });
    for (const blamed of [1, undefined]) assert.not.ok(canResume(dying, blamed));
    for (const innocent of [0, 2]) assert.ok(canResume(dying, innocent));
  }
});

const killed = { code: 'engine_killed', message: 'The engine was killed.', retryable: true };

test('a load that is killed spends no attempt, unless the run has another target', () => {
  for (const outputs of [0, 2]) {
    const waiting = context({ outputs, resumable: true, failures: 2, deaths: 2 });
    assert.equal(afterFailure(waiting, killed, NOW, { lost: true, computing: 0 }), {
      type: 'run.suspended',
      attempt: 1,
      error: killed,
      computing: 0,
    });
  }
  const next = { provider: 'near', model: 'm', cloud: false };
  const types = [0, 1, 2, 3].map((failures) => {
    const waiting = context({ fallbacks: [next], failures });
    const event = afterFailure(waiting, killed, NOW, { lost: true, computing: 0 });
    return 'next' in event ? 'moves' : event.type;
  });
  assert.equal(types, ['run.attempt_failed', 'moves', 'moves', 'moves']);
});

test('a death of the engine while it loads is no death of the run that waits for it', () => {
  const died = { code: 'engine_crashed', message: 'The engine process died.', retryable: true };
  const resumed = context({ outputs: 2, resumable: true, deaths: 2 });
  const ofLoad = { lost: true, computing: 0 };
  assert.equal(afterFailure(resumed, died, NOW, ofLoad), {
    type: 'run.suspended',
    attempt: 1,
    error: died,
    computing: 0,
  });
  const asked = context({ deaths: 2 });
  assert.is(afterFailure(asked, died, NOW, ofLoad).type, 'run.attempt_failed', 'it may recur');
});

test('the last attempt and a lasting failure end the run', () => {
  assert.equal(afterFailure(context({ attempt: 3, failures: 2 }), retryable, NOW), {
    type: 'run.failed',
    attempt: 3,
    error: retryable,
  });
  assert.equal(afterFailure(context({}), lasting, NOW), {
    type: 'run.failed',
    attempt: 1,
    error: lasting,
  });
});

test('a run whose attempts all fail makes as many as it may, then fails', () => {
  let snapshot: AnyMachineSnapshot = init(model.machine, model.created).snapshot;
  for (let attempt = 1; attempt <= 3; attempt += 1) {
    snapshot = step(model.machine, snapshot, {
      type: 'run.started',
      at: NOW,
      attempt,
    } as never).snapshot;
    assert.ok(isIn(snapshot, 'starting'));
    const event = { ...afterFailure((snapshot as RunSnapshot).context, retryable, NOW), at: NOW };
    snapshot = step(model.machine, snapshot, event).snapshot;
  }
  assert.ok(isIn(snapshot, 'failed'));
  assert.is((snapshot as RunSnapshot).context.attempt, 3);
});

test.run();
