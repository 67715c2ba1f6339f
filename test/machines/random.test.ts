import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { AnyMachineSnapshot } from 'xstate';
import type { DaemonSnapshot } from '../../machines/daemon/chart.ts';
import type { Effect } from '../../machines/effects.ts';
import { type EngineSnapshot, KILLS_COUNTED } from '../../machines/engine.ts';
import type { MachineEvent } from '../../machines/events.ts';
import type { ProviderSnapshot } from '../../machines/provider/chart.ts';
import type { PullSnapshot } from '../../machines/pull.ts';
import { mayResume } from '../../machines/retry.ts';
import type { RunSnapshot } from '../../machines/run/chart.ts';
import {
  acceptedTypesOf,
  can,
  init,
  isIn,
  stateName,
  statePath,
  step,
} from '../../machines/step.ts';
import { coverOf } from './cover.ts';
import { models } from './models/all.ts';
import { daemonModel } from './models/daemon.ts';
import { engineModel } from './models/engine.ts';
import type { Model } from './models/model.ts';
import { providerModel } from './models/provider.ts';
import { pullModel } from './models/pull.ts';
import { runModel } from './models/run.ts';

/** Long random lives, beyond the bounds within which the graph is walked whole. */

const LIVES = 300;
const EVENTS_MAX = 200;

interface Moment {
  before: AnyMachineSnapshot;
  event: MachineEvent;
  taken: boolean;
  after: AnyMachineSnapshot;
  effects: Effect[];
}

for (const model of models) {
  const keys = coverOf(model).states;
  test(`${model.name}: no random life finds a state that the walk did not`, () => {
    live(model, (moments) => {
      for (const { after } of moments) assert.ok(keys.has(model.key(after)), model.key(after));
    });
  });
}

test('daemon: the unsettled are never negative, and above capacity only until what was recovered is settled', () => {
  live(daemonModel(40), (moments) => {
    let recovered = 0;
    for (const { before, event, taken, after } of moments as DaemonMoment[]) {
      const { unsettled, capacity } = after.context;
      if (taken && event.type === 'daemon.runs_recovered')
        recovered = event.queued + (event.suspended ?? 0);
      assert.ok(unsettled >= 0);
      assert.ok(unsettled <= Math.max(capacity, recovered));
      if (taken && event.type === 'daemon.run_admitted')
        assert.is(unsettled, before.context.unsettled + 1);
      if (unsettled >= capacity)
        assert.not.ok(
          can(
            after,
            event.type === 'daemon.run_admitted'
              ? event
              : { ...event, type: 'daemon.run_admitted' },
          ),
        );
      assert.is(
        after.hasTag('ready'),
        ['ready', 'running.accepting', 'running.saturated'].includes(statePath(after)),
      );
      if (after.hasTag('ready')) assert.is(stateName(after), unsettled === 0 ? 'ready' : 'running');
    }
  });
});

const runBounds = {
  max_attempts: 9,
  max_losses: 6,
  outputs: 1000,
  least: { states: 0, edges: 0, refused: 0 },
};
const policies = [
  { recovery: 'resume', resumable: true },
  { recovery: 'resume', resumable: false },
  { recovery: 'restart', resumable: true },
  { recovery: 'end', resumable: true },
] as const;

for (const policy of policies) {
  const { recovery, resumable } = policy;

  test(`run (${recovery}, ${resumable}): one terminal event, nothing after it, no attempt beyond the limits, no text repeated`, () => {
    live(runModel({ ...runBounds, ...policy }), (moments) => {
      let text = '';
      let attempts = 0;
      let ends = 0;
      for (const { before, event, taken, after, effects } of moments as RunMoment[]) {
        if (before.status === 'done') assert.not.ok(taken, 'an event after the end');
        if (taken && after.status === 'done') ends += 1;
        // Output is discarded only if the next attempt starts again.
        if (taken && event.type === 'run.started' && event.resumes !== true) text = '';
        if (taken && event.type === 'run.output_appended') text += event.text;
        for (const { type, params } of effects) {
          if (type !== 'startAttempt') continue;
          assert.is(params.attempt, attempts + 1, 'attempts are numbered without gaps');
          attempts += 1;
        }
        assert.ok(after.context.failures < after.context.max_attempts);
        assert.ok(after.context.deaths <= after.context.max_losses);
        if (stateName(after) === 'suspended' && stateName(before) !== 'suspended')
          assert.ok(mayResume(before.context), 'suspended although it may not go on');
        assert.is(after.context.output, text);
        assert.is(after.context.ended_at !== null, after.status === 'done');
        if (stateName(after) === 'completed') assert.is(after.context.error, null);
        if (['failed', 'timed_out', 'interrupted'].includes(stateName(after)))
          assert.ok(after.context.error);
      }
      assert.ok(ends <= 1);
    });
  });

  test(`run (${recovery}, ${resumable}): its work is stopped only in states that wait for the stop`, () => {
    live(runModel({ ...runBounds, ...policy }), (moments) => {
      for (const { before, event, after, effects } of moments as RunMoment[]) {
        const asked = effects.filter(({ type }) => type === 'stopAttempt').length;
        const enters = stateName(after) === 'cancelling' && statePath(before) !== statePath(after);
        assert.is(asked, enters ? 1 : 0);
        // A second request comes only if a client cancels a run that a stop interrupts.
        if (asked === 1 && stateName(before) === 'cancelling')
          assert.is(event.type, 'run.cancel_requested');
      }
    });
  });
}

test('provider: the outcome of an earlier probe is never taken, and refused credentials show', () => {
  live(providerModel({ kind: 'local', failure_limit: 7 }), (moments) => {
    for (const { before, event, taken, after } of moments as ProviderMoment[]) {
      if (taken && 'probe' in event && event.type !== 'provider.probe_started')
        assert.is(event.probe, before.context.probe);
      if (taken && 'unauthorised' in event)
        assert.is(event.unauthorised, stateName(after) === 'unauthorised');
      assert.ok(after.context.failures <= after.context.failure_limit);
      if (stateName(after) === 'available') assert.is(after.context.failures, 0);
    }
  });
});

test('engine: one process at a time, each started once, stopped before it is killed, and the wait after crashes is bounded', () => {
  live(engineModel(), (moments) => {
    let started = 0;
    let running: number | null = null;
    for (const { before, event, taken, after, effects } of moments as EngineMoment[]) {
      if (taken && (event.type === 'engine.exited' || stateName(after) === 'crashed'))
        running = null;
      for (const { type, params } of effects) {
        if (type === 'startEngine') {
          assert.is(running, null, 'a process beside another');
          assert.is(params.attempt, started + 1);
          started = params.attempt;
          running = params.attempt;
        } else if (type === 'stopEngine' || type === 'killEngine')
          assert.is(params.attempt, running, 'a process that is gone');
        if (type === 'killEngine') assert.ok(isIn(before, 'stopping'));
      }
      assert.ok(after.context.crashes <= KILLS_COUNTED);
      assert.is(stateName(after) === 'cold' || stateName(after) === 'crashed', running === null);
      if (stateName(after) === 'crashed')
        assert.ok(after.context.due_at - after.context.since <= 250 * 2 ** (KILLS_COUNTED - 1));
    }
  });
});

test('pull: only a model that was verified is completed, and attempts that get no further are bounded', () => {
  live(pullModel(4), (moments) => {
    let verified = false;
    let idle = 0;
    for (const { event, taken, after } of moments as PullMoment[]) {
      if (!taken) continue;
      if (event.type === 'pull.verified') verified = true;
      if (event.type === 'pull.completed')
        assert.ok(verified, 'completed without having been verified');
      if (event.type === 'pull.progressed' && after.context.failures === 0) idle = 0;
      if (event.type === 'pull.attempt_failed') idle += 1;
      assert.ok(idle < 4, `${idle} attempts in vain`);
      assert.is(after.context.ended_at !== null, after.status === 'done');
    }
  });
});

test('what a state says it accepts is what it takes, guards apart', () => {
  for (const model of models) {
    live(model, (moments) => {
      for (const { before, event, taken } of moments)
        if (taken) assert.ok(acceptedTypesOf(before).includes(event.type), event.type);
    });
  }
});

type Of<S> = Omit<Moment, 'before' | 'after'> & { before: S; after: S };
type DaemonMoment = Of<DaemonSnapshot>;
type RunMoment = Of<RunSnapshot>;
type ProviderMoment = Of<ProviderSnapshot>;
type PullMoment = Of<PullSnapshot>;
type EngineMoment = Of<EngineSnapshot>;

/**
 * Steps a machine through random events, about half of them accepted. Passes each sequence to
 * `check`.
 */
function live(model: Model, check: (moments: Moment[]) => void): void {
  const choice = fc.record({ any: fc.nat(), taken: fc.boolean() });
  let taken = 0;
  const property = fc.property(
    fc.array(choice, { maxLength: EVENTS_MAX, size: 'max' }),
    (choices) => {
      let before: AnyMachineSnapshot = init(model.machine, model.created).snapshot;
      const moments = choices.map((chosen) => {
        const all = model.samples(before);
        const fitting = chosen.taken ? all.filter((sample) => can(before, sample)) : all;
        const event = (fitting.length > 0 ? fitting : all)[
          chosen.any % (fitting.length || all.length)
        ] as MachineEvent;
        const next = step(model.machine, before, event);
        const moment = {
          before,
          event,
          taken: can(before, event),
          after: next.snapshot,
          effects: next.effects,
        };
        before = next.snapshot;
        if (moment.taken) taken += 1;
        return moment;
      });
      check(moments);
    },
  );
  fc.assert(property, { numRuns: LIVES });
  assert.ok(taken > LIVES, `${taken} events were taken`);
}

test.run();
