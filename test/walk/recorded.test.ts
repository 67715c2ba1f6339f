import { globSync, readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { formatOf, LOG_FORMAT, TEXTS_FORMAT } from '../../machines/events.ts';
import { runEvents } from '../../src/contract/run-events.ts';
import type { SvcError } from '../../src/errors.ts';
import { foldEvent } from '../../src/kernel/fold.ts';
import { machineOf } from '../../src/kernel/registry.ts';
import { readRecorded } from './recorded/logs.ts';
import { outcomeOf } from './recorded/outcome.ts';
import { SHOWS } from './recorded/shows.ts';

/** Streams that earlier versions have recorded show users what they showed then. */

const recorded = readRecorded();
const ofOthers = globSync('machines/**/*.ts')
  .map((file) => readFileSync(file, 'utf8'))
  .join('\n')
  .matchAll(/EventOf<\s*'([a-z]+\.[a-z_]+)'/g);
const TYPES = new Set([...[...ofOthers].map(([, type]) => type ?? ''), ...Object.keys(runEvents)]);

/** Types of the third format that no recorded stream holds: they are newer than 0.1.0. */
const NOT_RECORDED = [
  'conversation.created',
  'conversation.deleted',
  'conversation.described',
  'conversation.item_removed',
  'conversation.items_added',
  'conversation.run_added',
  'lease.granted',
  'lease.leave_requested',
  'lease.left',
  'lease.lost',
  'lease.renewal_failed',
  'lease.renewed',
  'lease.requested',
  'provider.embedding_counted',
  'provider.embedding_sent',
  'provider.key_changed',
  'provider.trial_abandoned',
  'provider.trial_started',
  'provider.wait_ended',
  'run.sent_to_cloud',
];
/** Together, so that the tree stays small. */
const BYTES_MAX = 200_000;

for (const { version, machine, shows, events, outcome } of recorded) {
  test(`${version} ${machine} ${shows}: users see after each event what they saw then`, () => {
    const now = outcomeOf(events, outcome.by);
    assert.is(machineOf(events[0]?.stream ?? '').id, machine);
    assert.equal(now.states, outcome.states);
    // A later version may show more of a record, and nothing else of what was shown.
    const known = Object.fromEntries(
      Object.keys(outcome.record).map((name) => [name, now.record[name]]),
    );
    assert.equal(withoutAdvice(known), withoutAdvice(outcome.record));
  });

  test(`${version} ${machine} ${shows}: the inner states are those that are written beside it: else run record.ts --state-paths`, () => {
    assert.equal(outcomeOf(events, outcome.by).state_paths, outcome.state_paths);
  });
}

/**
 * A hint says what to do with the present program, so its words may change. 0.1.0 recorded whether
 * a repetition helps, but showed what its code mostly means.
 */
function withoutAdvice(record: Record<string, unknown>): Record<string, unknown> {
  const { error } = record;
  if (typeof error !== 'object' || error === null) return record;
  const { hint: _hint, retryable: _retryable, ...rest } = error as Record<string, unknown>;
  return { ...record, error: rest };
}

test('each thing that a machine can show is recorded', () => {
  const names = (machine: string) =>
    recorded.filter((one) => one.machine === machine).map(({ shows }) => shows);
  for (const [machine, shows] of Object.entries(SHOWS))
    assert.equal(
      [...new Set(names(machine))].sort(),
      Object.keys(shows).sort(),
      `${machine}: add a recording to test/walk/recorded/`,
    );
});

test('each type of event is recorded, but for those that 0.1.0 did not have', () => {
  assert.ok(TYPES.size > 50, `${TYPES.size} types`);
  const types = new Set(recorded.flatMap(({ events }) => events.map(({ type }) => type)));
  assert.equal(
    [...types].filter((type) => !TYPES.has(type)),
    [],
    'an event of an older version must stay in the machines',
  );
  const missing = [...TYPES].filter((type) => !types.has(type) && formatOf(type) === null);
  assert.equal(missing.sort(), NOT_RECORDED, 'NOT_RECORDED is in test/walk/recorded.test.ts');
});

test('each kind of event is of the format that first had it: an older version refuses a log of a newer one', () => {
  const formats = JSON.parse(readFileSync('test/fixtures/formats.json', 'utf8')) as Record<
    string,
    string[]
  >;
  const now = Object.groupBy([...TYPES].sort(), (type) => formatOf(type) ?? 3);
  assert.equal(JSON.parse(JSON.stringify(now)), formats, 'a new kind: raise LOG_FORMAT');
  const newest = Math.max(TEXTS_FORMAT, ...Object.keys(formats).map(Number));
  assert.is(newest, LOG_FORMAT);
});

test('a log of this format has each kind of event, and golden.test.ts folds it', () => {
  const lines = readFileSync('test/fixtures/logs/1.0.0-rc.1-every-kind.jsonl', 'utf8').trim();
  const types = new Set(
    lines.split('\n').map((line) => (JSON.parse(line) as { type: string }).type),
  );
  assert.equal(
    [...TYPES].filter((type) => !types.has(type)),
    [],
  );
});

test('a kind of event or of stream that only a newer version knows is named, and never left out', () => {
  const [first] = recorded.find(({ machine }) => machine === 'run')?.events ?? [];
  assert.ok(first);
  const before = foldEvent(undefined, first);
  for (const [changes, name] of [
    [{ type: 'run.paused', version: 2 }, 'run.paused'],
    [{ stream: 'plan:one' }, 'plan:one'],
  ] as const)
    assert.throws(
      () => foldEvent('stream' in changes ? undefined : before, { ...first, ...changes }),
      (error: SvcError) =>
        error.code === 'store_foreign' && error.message.includes(`"${name}"`) && error.hint !== '',
    );
});

test('the recorded streams are small', () => {
  const bytes = recorded.reduce((total, one) => total + one.bytes, 0);
  assert.ok(bytes > 0 && bytes < BYTES_MAX, `${bytes} bytes`);
});

test.run();
