import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { isRecord } from '../../src/json.ts';
import type { StoredEvent } from '../../src/kernel/store/port.ts';
import { Walked } from './edges.ts';
import { LOGS, statesOf } from './golden.ts';

/** Logs that earlier versions have written fold to the states that they had then, for ever. */

const logs = readdirSync(LOGS).filter((file) => file.endsWith('.jsonl'));

for (const log of logs) {
  const events = readFileSync(`${LOGS}/${log}`, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as StoredEvent);
  const recorded = JSON.parse(
    readFileSync(`${LOGS}/${log.replace('.jsonl', '.states.json')}`, 'utf8'),
  ) as ReturnType<typeof statesOf>;

  test(`${log}: every stream folds to the state that was recorded`, () => {
    const states = statesOf(events);
    assert.equal(
      Object.keys(states).sort(),
      Object.keys(recorded).sort(),
      'the fold changed: an old log must keep its states',
    );
    for (const [stream, { state, context }] of Object.entries(recorded)) {
      const now = states[stream] ?? { state: '', context: {} };
      assert.is(now.state, state, stream);
      // A later version may know more of a state, and nothing else of what was known.
      const known = Object.fromEntries(
        Object.entries(context).map(([key, was]) => [key, knownOf(fieldOf(now.context, key), was)]),
      );
      assert.equal(JSON.parse(JSON.stringify(known)), context, stream);
    }
  });

  test(`${log}: every event is accepted by its machine`, () => {
    const walked = new Walked();
    walked.addLog(events);
    assert.is(walked.events, events.length);
  });
}

/** How a run ended is one object now. Its fields were beside the others. */
function fieldOf(context: object, key: string): unknown {
  const fields = context as Record<string, unknown>;
  const { completion } = fields;
  if (key in fields || completion === undefined) return fields[key];
  return (completion as Record<string, unknown> | null)?.[key] ?? null;
}

/** The fields that the record has, such as those of each call of a run. */
function knownOf(now: unknown, was: unknown): unknown {
  if (Array.isArray(now) && Array.isArray(was))
    return now.map((each, at) => (at in was ? knownOf(each, was[at]) : each));
  if (!isRecord(now) || !isRecord(was) || Array.isArray(now)) return now;
  return Object.fromEntries(
    Object.entries(now).flatMap(([key, value]) =>
      key in was ? [[key, knownOf(value, was[key])]] : [],
    ),
  );
}

test('there is a log of each version', () => {
  assert.ok(logs.length >= 2, logs.join(', '));
});

test.run();
