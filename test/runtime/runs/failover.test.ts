import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/errors.ts';
import type { EventStore } from '../../../src/kernel/store/port.ts';
import type { Limits } from '../../../src/limits.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import {
  finish,
  gate,
  output,
  ScriptedProvider,
  untilAborted,
} from '../../helpers/scripted-provider.ts';
import { turns } from '../../helpers/turns.ts';
import { codeOf, waitFor } from '../../helpers/wait.ts';

/** Runs of several targets: far is a cloud provider, near and local are on this machine. */

const down = () => new SvcError('provider_failed', 'It answers with 503.');
const says = (id: string, text: string) => new ScriptedProvider(id, [output(text), finish()]);

async function boot({
  far = says('far', 'from far'),
  near = says('near', 'from near'),
  local = says('local', 'from local'),
  limits = {},
  max_runs,
  store,
  boot_id,
}: {
  far?: ScriptedProvider;
  near?: ScriptedProvider;
  local?: ScriptedProvider;
  limits?: Partial<Limits>;
  max_runs?: number;
  store?: EventStore;
  boot_id?: string;
} = {}) {
  const booted = await bootRuntime({
    local,
    remote: {
      far: { port: far, kind: 'cloud' },
      near: { port: near, kind: 'local', ...(max_runs === undefined ? {} : { max_runs }) },
    },
    limits: { target_attempts: 1, ...limits },
    ...(store === undefined ? {} : { store }),
    ...(boot_id === undefined ? {} : { boot_id }),
  });
  const { runtime, kernel } = booted;
  const start = async (model: string[]) =>
    (await runtime.runs.start({ prompt: 'hi', model }, 'test')).id;
  const ended = async (id: string) => {
    await waitFor('the run has ended', () => !kernel.instances.has(id));
    return runtime.runs.get(id);
  };
  const types = async (id: string) =>
    (await booted.store.readStream(id, 1, 100)).map(({ type }) => type.slice('run.'.length));
  return { ...booted, far, near, local, start, ended, types };
}

test('a target that fails is tried again, and then the next one answers', async () => {
  const near = new ScriptedProvider('near', () => [down()]);
  const { start, ended, clock, types } = await boot({ near, limits: { target_attempts: 2 } });
  const id = await start(['near/m1', 'local/m2']);
  await waitFor('it failed once', () => near.asked.length === 1);
  await waitFor('it waits', async () => (await types(id)).includes('attempt_failed'));
  clock.advance(1000);
  const run = await ended(id);
  assert.equal(
    [run.state, run.output, run.provider, run.model],
    ['completed', 'from local', 'local', 'm2'],
  );
  assert.is(near.asked.length, 2);
  assert.equal(
    run.failed_attempts?.map(({ attempt, provider, model, code }) => [
      attempt,
      provider,
      model,
      code,
    ]),
    [
      [1, 'near', 'm1', 'provider_failed'],
      [2, 'near', 'm1', 'provider_failed'],
    ],
  );
  assert.is(run.fallbacks, undefined);
});

test('a target that answers with nothing is left, and the next one answers', async () => {
  const near = new ScriptedProvider('near', [finish()]);
  const { start, ended } = await boot({ near });
  const run = await ended(await start(['near/m1', 'local/m2']));
  assert.equal([run.state, run.output, run.provider], ['completed', 'from local', 'local']);
  assert.equal(
    run.failed_attempts?.map(({ code }) => code),
    ['answer_empty'],
  );
});

test('a target is never left once it has answered something', async () => {
  const near = new ScriptedProvider('near', [output('Hel'), down()]);
  const { start, ended, local } = await boot({ near });
  const run = await ended(await start(['near/m1', 'local/m2']));
  assert.equal([run.state, run.output, run.error?.code], ['failed', 'Hel', 'provider_failed']);
  assert.equal(run.fallbacks, ['local/m2']);
  assert.is(local.asked.length, 0);
});

test('one rejection is worth one try at the next target, a second one is not', async () => {
  const rejects = (id: string) =>
    new ScriptedProvider(id, [
      new SvcError('provider_rejected', `${id} has no field top_z.`, { status: 400 }),
    ]);
  const one = await boot({ near: rejects('near') });
  const moved = await one.ended(await one.start(['near/m1', 'local/m2', 'far/m3']));
  assert.equal([moved.state, moved.output], ['completed', 'from local']);

  const two = await boot({ near: rejects('near'), local: rejects('local') });
  const { state, error } = await two.ended(await two.start(['near/m1', 'local/m2', 'far/m3']));
  assert.equal([state, error?.code, error?.retryable], ['failed', 'targets_failed', false]);
  assert.match(
    error?.message ?? '',
    /^2 targets did not take the request, so no other one is asked/,
  );
  assert.match(error?.message ?? '', 'near/m1: near has no field');
  assert.equal(error?.details, { status: 400 });
  assert.is(two.far.asked.length, 0);
});

test('a wrong request goes to no other target', async () => {
  const near = new ScriptedProvider('near', [new SvcError('invalid_request', 'No.')]);
  const { start, ended, local } = await boot({ near });
  const run = await ended(await start(['near/m1', 'local/m2']));
  assert.equal([run.state, run.error?.code], ['failed', 'invalid_request']);
  assert.is(local.asked.length, 0);
});

test('targets that are all busy say when one of them may be asked', async () => {
  const busy = (id: string, wait: number) =>
    new ScriptedProvider(id, [
      new SvcError('provider_busy', undefined, { status: 429, retryAfterMs: wait }),
    ]);
  const { start, ended } = await boot({ near: busy('near', 90_000), local: busy('local', 40_000) });
  const { error } = await ended(await start(['near/m1', 'local/m2']));
  assert.equal([error?.code, error?.retryable], ['targets_failed', true]);
  assert.equal(error?.details, { status: 429, retry_after_ms: 40_000 });
});

test('what one target lacks, another may have', async () => {
  for (const code of [
    'context_length_exceeded',
    'capability_missing',
    'model_unknown',
    'provider_unauthorised',
  ] as const) {
    const near = new ScriptedProvider('near', [new SvcError(code)]);
    const { start, ended } = await boot({ near });
    assert.is((await ended(await start(['near/m1', 'local/m2']))).output, 'from local', code);
  }
});

test('when no target answers, the error has what each of them said', async () => {
  const failing = (id: string, message: string) =>
    new ScriptedProvider(id, [new SvcError('provider_failed', message)]);
  const { start, ended } = await boot({
    far: failing('far', 'No credit.'),
    near: failing('near', 'It is down.'),
    local: failing('local', 'The file is damaged.'),
    limits: { run_attempts: 1 },
  });
  const { error, attempts } = await ended(await start(['far/a', 'near/b', 'local/c']));
  assert.is(error?.code, 'targets_failed');
  assert.is(
    error?.message,
    'None of the 3 targets answered. far/a: No credit; near/b: It is down; local/c: The file is damaged.',
  );
  assert.is(attempts, 3);
});

test('a provider that is known to be down is passed over without a retry', async () => {
  const { start, ended, providers, near, local, types } = await boot({
    limits: { target_attempts: 3 },
  });
  providers.enter = async (id) =>
    id === 'local'
      ? { ok: true }
      : { ok: false, code: 'provider_unavailable', reason: 'Connection refused.', until: null };
  const id = await start(['near/m1', 'local/m2']);
  const run = await ended(id);
  assert.equal([run.state, run.output], ['completed', 'from local']);
  assert.equal([near.asked.length, local.asked.length], [0, 1]);
  assert.is(run.failed_attempts?.[0]?.message, 'Connection refused.');
  assert.equal((await types(id)).slice(0, 4), ['accepted', 'started', 'attempt_failed', 'started']);
});

test('a target that says nothing is given up, and its work has stopped', async () => {
  const near = new ScriptedProvider('near', (_, signal) => [untilAborted(signal)]);
  const { start, ended, clock } = await boot({ near, limits: { target_wait_ms: 2000 } });
  const id = await start(['near/m1', 'local/m2']);
  await waitFor('it is asked', () => near.open === 1);
  clock.advance(1999);
  await turns();
  assert.is(near.open, 1);
  clock.advance(1);
  const run = await ended(id);
  assert.equal([run.output, near.open], ['from local', 0]);
  assert.match(run.failed_attempts?.[0]?.message ?? '', 'within 2 s');
});

test('a run waits for its turn at the next target, with all its time in the queue', async () => {
  const free = gate();
  const near = new ScriptedProvider('near', () => [() => free.opened, output('near'), finish()]);
  const far = new ScriptedProvider('far', [down()]);
  const { start, ended, runtime, clock, scheduler } = await boot({ far, near, max_runs: 1 });
  const first = await start(['near/m1']);
  await waitFor('the place is taken', () => near.open === 1);
  clock.advance(5000);
  const second = await start(['far/m1', 'near/m1', 'local/m1']);
  const { state, attempts } = await waitFor('it waits at near', async () => {
    const run = await runtime.runs.get(second);
    return run.provider === 'near' ? run : null;
  });
  assert.equal([state, attempts, scheduler.position(second)], ['queued', 1, 1]);
  free.open();
  await ended(first);
  assert.is((await ended(second)).provider, 'near');
});

test('a run goes on with its present target after the death of the daemon', async () => {
  const far = new ScriptedProvider('far', [down()]);
  const near = new ScriptedProvider('near', (_, signal) => [untilAborted(signal)]);
  const before = await boot({ far, near });
  const id = await before.start(['far/m1', 'near/m2', 'local/m3']);
  await waitFor('near is asked', () => near.open === 1);
  before.kernel.close();
  const after = await boot({ store: before.store, boot_id: 'boot_2' });
  const run = await after.ended(id);
  assert.equal([run.provider, run.model, run.output], ['near', 'm2', 'from near']);
  assert.equal([after.far.asked.length, run.fallbacks], [0, ['local/m3']]);
});

test('the log says what goes to a cloud before it goes, and nothing of a target that is not asked', async () => {
  let known: string[] = [];
  const far: ScriptedProvider = new ScriptedProvider('far', ({ run_id }) => [
    async () => {
      known = (await booted.store.readStream(run_id, 1, 100)).map(({ type }) => type);
    },
    down(),
  ]);
  const booted = await boot({ far });
  const run = await booted.ended(await booted.start(['far/m1', 'near/m2']));
  assert.ok(known.includes('run.sent_to_cloud'), known.join(' '));
  assert.equal([run.provider, run.cloud], ['near', false]);
  const [sent, second] = run.sent_to_cloud ?? [];
  assert.equal([sent?.provider, sent?.model, sent?.attempt, second], ['far', 'm1', 1, undefined]);
  assert.ok((sent?.bytes ?? 0) > 'hi'.length);

  booted.providers.enter = async (id) =>
    id === 'far'
      ? { ok: false, code: 'provider_unavailable', reason: 'No way there.', until: null }
      : { ok: true };
  const skipped = await booted.ended(await booted.start(['far/m1', 'near/m2']));
  assert.equal([skipped.provider, skipped.sent_to_cloud], ['near', undefined]);
});

test('every target is checked when the run is accepted', async () => {
  const { runtime, far } = await boot();
  const start = (model: string | string[], cloud?: boolean) =>
    codeOf(
      runtime.runs.start({ prompt: 'hi', model, ...(cloud === undefined ? {} : { cloud }) }, 't'),
    );
  assert.is(await start(['local/m', 'near/m', 'far/m', 'nope/m']), 'provider_unknown');
  assert.is(await start(['near/m', 'bare-name']), undefined);
  assert.is(await start(['far/m', 'local/m'], true), 'usage');
  assert.is(
    await start(Array.from({ length: 9 }, (_, index) => `near/${index}`)),
    'invalid_request',
  );
  assert.is(far.asked.length, 0);
});

test.run();
