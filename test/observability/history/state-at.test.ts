import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { SvcError } from '../../../src/errors.ts';
import { toRecord } from '../../../src/runtime/runs/event-record.ts';
import { eventData } from '../../../src/transport/stream/event-forms.ts';
import { eventsOf } from '../../helpers/events.ts';
import { makeHistory } from '../../helpers/history.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import { finish, output, ScriptedProvider } from '../../helpers/scripted-provider.ts';
import { waitFor } from '../../helpers/wait.ts';

const history = await makeHistory();
const { runtime, store, seen, ids } = history;
const events = await store.readAll(1, 10_000);
const last = events.at(-1)?.seq ?? 0;

const refusal = async (work: Promise<unknown>) => {
  const error = await work.then(
    () => null,
    (thrown: SvcError) => thrown,
  );
  return { code: error?.code, param: error?.param };
};

test('the state at each event of two boots is the state that memory had then', async () => {
  assert.ok(seen.size > 20, String(seen.size));
  for (const [seq, { states, outputs }] of seen) {
    const picture = await runtime.history.snapshot({ at: seq });
    assert.is(picture.seq, seq);
    assert.equal(
      Object.fromEntries(picture.instances.map(({ stream, state_path }) => [stream, state_path])),
      sorted(states, picture.instances),
      `after ${seq}`,
    );
    for (const [id, text] of Object.entries(outputs))
      assert.is(picture.runs.find((run) => run.id === id)?.output, text, `${id} after ${seq}`);
  }
});

test('the snapshot at the end is the present one, without what only the present knows', async () => {
  const [past, now] = [
    await runtime.history.snapshot({ at: last }),
    await runtime.history.snapshot({}),
  ];
  assert.is(now.seq, last);
  for (const name of ['instances', 'runs', 'queue', 'boot_id', 'first_seq', 'last_seq'] as const)
    assert.equal(sortedBy(past[name]), sortedBy(now[name]), name);
  assert.equal(past.engine.state_path, now.engine.state_path);
  assert.equal(
    past.providers.map(({ id, state, state_path }) => ({ id, state, state_path })),
    now.providers.map(({ id, state, state_path }) => ({ id, state, state_path })),
  );
  const { ready_since, ...status } = now.status;
  assert.ok(ready_since !== undefined, 'only the present knows since when it is ready');
  assert.equal({ ...past.status, runs: null }, { ...status, runs: null });
});

test('waiting runs have their positions, and runs that have just ended are shown', async () => {
  const at = seqOf(ids.queued, 'run.accepted');
  const picture = await runtime.history.snapshot({ at });
  assert.equal(picture.queue, { length: 1, capacity: 256 });
  assert.equal(picture.status.runs, { active: 1, queued: 1, finished: null });
  assert.equal(
    picture.runs.map(({ id, state, queue_position }) => [id, state, queue_position]),
    [
      [ids.cancelled, 'streaming', null],
      [ids.queued, 'queued', 1],
      [ids.failed, 'failed', null],
      [ids.completed, 'completed', null],
    ],
  );
});

test('a snapshot of a crashed boot has its machines, and none of the next boot', async () => {
  const at = seqOf(ids.cut, 'run.output_appended');
  const { boot_id, instances, status } = await runtime.history.snapshot({ at });
  assert.is(boot_id, 'boot_1');
  assert.is(status.state_path, 'running.accepting');
  assert.ok(instances.every(({ stream }) => !stream.includes('boot_2')));
  const begin =
    events.find((event) => event.type === 'daemon.boot_started' && event.boot_id === 'boot_2')
      ?.seq ?? 0;
  assert.is((await runtime.history.snapshot({ at: begin })).status.state_path, 'starting.binding');
  assert.ok(
    (await runtime.history.snapshot({ at: begin })).instances.some(
      ({ stream }) => stream === ids.cut,
    ),
    'a run that was left waits for the next boot',
  );
});

test('a run has its record at an earlier position', async () => {
  const outputs = events.filter(
    (event) => event.stream === ids.completed && event.type === 'run.output_appended',
  );
  assert.ok(outputs.length > 0);
  let text = '';
  for (const { seq, data } of outputs) {
    text += data.text;
    const run = await runtime.history.runAt(ids.completed, seq);
    assert.equal([run.state, run.output, run.seq], ['streaming', text, seq]);
  }
  assert.equal(
    await runtime.history.runAt(ids.completed, last),
    await runtime.runs.get(ids.completed),
  );
  assert.is(
    (await runtime.history.runAt(ids.completed, seqOf(ids.completed, 'run.accepted'))).state,
    'queued',
  );
});

test('unknown runs and positions are refused with the name of the parameter', async () => {
  assert.equal(await refusal(runtime.history.runAt(ids.last, 5)), {
    code: 'run_unknown',
    param: 'id',
  });
  assert.equal(await refusal(runtime.history.runAt('run_nobody', 5)), {
    code: 'run_unknown',
    param: 'id',
  });
  assert.equal(await refusal(runtime.history.runAt('daemon:boot_1', 5)), {
    code: 'run_unknown',
    param: 'id',
  });
  for (const at of [0, -1, last + 1, Number.MAX_SAFE_INTEGER, 0.5]) {
    assert.equal(
      await refusal(runtime.history.snapshot({ at })),
      { code: 'invalid_request', param: 'at' },
      String(at),
    );
    assert.equal(
      await refusal(runtime.history.runAt(ids.last, at)),
      { code: 'invalid_request', param: 'at' },
      String(at),
    );
  }
});

test('before the log opens there is no history, and the present shows the start', async () => {
  const early = await bootRuntime({ local: new ScriptedProvider('local', []), until: 'opened' });
  assert.is((await early.runtime.history.snapshot({})).status.state_path, 'starting.recovering');
});

test('a snapshot bounds its runs and their texts', async () => {
  const local = new ScriptedProvider('local', [output('a'.repeat(5000)), finish()]);
  const many = await bootRuntime({
    local,
    limits: { snapshot_runs: 3, snapshot_text_bytes: 12_000 },
  });
  const made: { id: string }[] = [];
  for (let count = 0; count < 5; count += 1)
    made.push(await many.runtime.runs.start({ prompt: `p${count}` }, 'test'));
  await waitFor('all are over', () => made.every(({ id }) => !many.kernel.instances.has(id)));
  await waitFor('and settled', () => many.runtime.status().state === 'ready');
  for (const picture of [
    await many.runtime.history.snapshot({}),
    await many.runtime.history.snapshot({ at: many.kernel.durableSeq }),
  ]) {
    assert.equal(
      picture.runs.map(({ output: text, shortened }) => [text.length, shortened ?? false]),
      [
        [5000, false],
        [5000, false],
        [200, true],
      ],
    );
  }
});

test('positions around removed runs still have a snapshot', async () => {
  const removed = new Set([ids.completed, ids.failed]);
  const pruned = events.filter(({ stream }) => !removed.has(stream));
  const gone = await bootRuntime({
    local: new ScriptedProvider('local', []),
    store: withEvents(pruned),
    boot_id: 'boot_3',
  });
  const at = seqOf(ids.completed, 'run.completed');
  const picture = await gone.runtime.history.snapshot({ at });
  assert.is(picture.seq, at);
  assert.ok(picture.runs.every(({ id }) => !removed.has(id)));
  assert.equal(await refusal(gone.runtime.history.runAt(ids.completed, at)), {
    code: 'run_unknown',
    param: 'id',
  });
  const later = withEvents(pruned.filter(({ seq }) => seq > 10));
  const cut = await bootRuntime({
    local: new ScriptedProvider('local', []),
    store: later,
    boot_id: 'boot_3',
  });
  assert.equal(await refusal(cut.runtime.history.snapshot({ at: 5 })), {
    code: 'invalid_request',
    param: 'at',
  });
  assert.equal(
    await refusal(cut.runtime.history.snapshot({ at: 12 })),
    { code: 'invalid_request', param: 'at' },
    'a boot without its beginning cannot be folded',
  );
});

test('the event log is read unchanged', async () => {
  const stop = new AbortController();
  const records = [];
  for await (const event of eventsOf(
    runtime.history.followLog(
      { follow: false, from_seq: 1 },
      { form: eventData, signal: stop.signal },
    ),
  ))
    records.push(event);
  assert.equal(records, events.map(toRecord));
});

/** A store that lost some of its events. */
function withEvents(kept: typeof events): typeof store {
  return {
    ...store,
    readAll: async (from_seq, limit) => kept.filter(({ seq }) => seq >= from_seq).slice(0, limit),
    readStream: async (stream, from_version, limit) =>
      kept
        .filter((event) => event.stream === stream && event.version >= from_version)
        .slice(0, limit),
    append: async () => ({ full: false, first_seq: last + 1 }),
    open: async () => ({ ...(await store.open()), last_seq: last }),
  };
}

function seqOf(stream: string, type: string): number {
  return events.find((event) => event.stream === stream && event.type === type)?.seq ?? Number.NaN;
}

/**
 * In the order of the instances. It includes runs that memory does not yet have at the start of a
 * boot.
 */
function sorted(
  states: Record<string, string>,
  instances: readonly { stream: string; state_path: string }[],
): Record<string, string> {
  const early = instances.filter(
    ({ stream }) =>
      stream === ids.cut &&
      states[stream] === undefined &&
      Object.keys(states).some((name) => name.includes('boot_2')),
  );
  const all = {
    ...states,
    ...Object.fromEntries(early.map(({ stream, state_path }) => [stream, state_path])),
  };
  return Object.fromEntries(
    instances
      .map(({ stream }) => [stream, all[stream] ?? 'not in memory'])
      .concat(
        Object.entries(all).filter(([stream]) => !instances.some((one) => one.stream === stream)),
      ),
  );
}

function sortedBy(value: unknown): unknown {
  return Array.isArray(value)
    ? [...value].sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1))
    : value;
}

test.run();
