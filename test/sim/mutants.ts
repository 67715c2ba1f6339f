// biome-ignore-all lint/complexity/useLiteralKeys: a planted bug changes private members

import type { DaemonSnapshot } from '../../machines/daemon/chart.ts';
import { runMachine } from '../../machines/run/chart.ts';
import { isTerminalEvent } from '../../machines/run/context.ts';
import { isIn } from '../../machines/step.ts';
import type { Pending } from '../../src/kernel/committer.ts';
import type { Instance } from '../../src/kernel/instance.ts';
import { Kernel, type KernelOptions } from '../../src/kernel/kernel.ts';
import { machineBy } from '../../src/kernel/registry.ts';
import type { EventStore } from '../../src/kernel/store/port.ts';
import { type RunKey, stream } from '../../src/kernel/stream.ts';
import type { EffectHandlers } from '../../src/ports/log.ts';
import { RunExecutor } from '../../src/runtime/runs/executor.ts';
import { Keys } from '../../src/runtime/runs/keys.ts';
import { Scheduler, type SchedulerOptions } from '../../src/runtime/runs/scheduler.ts';
import { type WaitingRun, WaitingRuns } from '../../src/runtime/runs/waiting-runs.ts';
import { ToolCalls } from '../../src/runtime/tools/tool-calls.ts';
import { McpServers } from '../../src/tools/servers.ts';
import { everyEffect } from '../helpers/kernel.ts';
import type { LifeOptions } from './life.ts';
import { hashOf } from './random.ts';

/** A planted bug: a mistake that a developer could make, and no user may meet. */
export interface Mutant {
  name: string;
  /** One of these invariants must break. */
  breaks: readonly string[];
  createKernel?: LifeOptions['createKernel'];
  /** Tokens by which a resumed answer is off. */
  shift?: number;
  losesLast?: boolean;
  /** Changes how a boot sees the disk. */
  store?(store: EventStore): EventStore;
  /** Drops the effect, unrecorded. */
  drops?(effect: string, life: number): boolean;
  places?(places: SchedulerOptions['concurrency']): SchedulerOptions['concurrency'];
  /** Changes the code. Returns the function that restores it. */
  apply?(): () => void;
}

/** Replaces a method of a class until it is restored. */
function patch<T extends object, K extends keyof T>(
  target: T,
  name: K,
  change: (original: T[K]) => T[K],
): () => void {
  const original = target[name];
  target[name] = change(original);
  return () => {
    target[name] = original;
  };
}

/** Gives events other fields before they are recorded. */
function changeEvents(fieldsOf: (event: { type: string }) => object): () => void {
  return patch(
    Kernel.prototype,
    'tryAppend',
    (tryAppend) =>
      function (this: Kernel, stream, event) {
        return tryAppend.call(this, stream, { ...event, ...fieldsOf(event) });
      },
  );
}

/** Handles effects when their event is proposed. */
class EagerKernel extends Kernel {
  private given: EffectHandlers | null = null;

  override handle(handlers: EffectHandlers): void {
    this.given = handlers;
    super.handle(everyEffect(() => {}));
  }

  override propose(drafted: readonly Pending[]): Promise<void> {
    const { given } = this;
    const done = super.propose(drafted);
    if (given === null) return done;
    for (const { event, effects } of drafted)
      for (const [number, effect] of effects.entries())
        (given[effect.type] as (params: unknown, id: string) => void)(
          effect.params,
          `${event.stream}:${event.version}:${number}`,
        );
    return done;
  }
}

/** Resolves a proposal before its event is durable. */
class HastyKernel extends Kernel {
  override propose(drafted: readonly Pending[]): Promise<void> {
    super.propose(drafted).catch(() => {});
    return Promise.resolve();
  }
}

/** Records the end of a run twice. */
class TwiceKernel extends Kernel {
  constructor(options: KernelOptions) {
    super(options);
    const committer = this['committer'];
    const push = committer.push.bind(committer);
    committer.push = (items) => push(items.flatMap(twice));
  }
}

function twice(item: Pending): Pending[] {
  if (!isTerminalEvent(item.event.type)) return [item];
  return [
    item,
    { ...item, event: { ...item.event, version: item.event.version + 1 }, effects: [] },
  ];
}

/** Removes the idle deadline of a provider. */
class PatientKernel extends Kernel {
  constructor(options: KernelOptions) {
    super(options);
    const timers = this['timers'];
    const arm = timers.arm.bind(timers);
    timers.arm = (instance: Instance, notBefore?: number) =>
      instance.path === 'streaming' ? instance.disarm?.() : arm(instance, notBefore);
  }
}

export const mutants: readonly Mutant[] = [
  {
    name: 'effects are performed before their event is on the disk',
    breaks: ['effect-before-event'],
    createKernel: (options) => new EagerKernel(options),
  },
  {
    name: 'a run ends twice',
    breaks: ['one-end'],
    createKernel: (options) => new TwiceKernel(options),
  },
  {
    name: 'a deadline is forgotten',
    breaks: ['deadline-armed'],
    createKernel: (options) => new PatientKernel(options),
  },
  {
    name: 'a run is acknowledged before it is on the disk',
    breaks: ['acknowledged', 'error', 'exception'],
    createKernel: (options) => new HastyKernel(options),
  },
  {
    name: 'the last commit before a crash is lost, although it was acknowledged (synchronous=NORMAL)',
    breaks: ['lost'],
    losesLast: true,
  },
  { name: 'a resumed answer repeats the last token', breaks: ['output'], shift: -1 },
  { name: 'a resumed answer leaves out a token', breaks: ['output'], shift: 1 },
  {
    name: 'the first attempt after a start is never begun',
    breaks: ['effect-lost'],
    drops: (effect, life) => effect === 'startAttempt' && life > 1,
  },
  {
    name: 'an outcome of an earlier attempt is accepted',
    breaks: ['stale-attempt'],
    apply: () =>
      patch(machineBy, 'run', () =>
        runMachine.provide({ guards: { isThisAttempt: ({ event }) => 'attempt' in event } }),
      ),
  },
  {
    name: 'of requests with one key that come together each looks for itself',
    breaks: ['one-run-a-key'],
    apply: () =>
      patch(
        Keys.prototype,
        'runOfKey',
        () =>
          function (this: Keys, asked_by, written, input, start) {
            return this['findOrStart']({ asked_by, written, key: written }, input, start);
          },
      ),
  },
  {
    name: 'the queue is in another order after a restart',
    breaks: ['first-come'],
    store: (store) => ({
      ...store,
      unfinishedRuns: async () => (await store.unfinishedRuns()).reverse(),
    }),
  },
  {
    name: 'a run that ends in a full queue is counted as unsettled for ever',
    breaks: ['unsettled'],
    apply: () =>
      patch(
        Kernel.prototype as unknown as { propose(drafted: Pending[]): Promise<void> },
        'propose',
        (propose) =>
          function (this: Kernel, drafted) {
            for (const item of drafted)
              if (
                item.count?.type === 'daemon.run_settled' &&
                isIn(item.count.daemon.snapshot as DaemonSnapshot, 'saturated')
              )
                item.count = null;
            return propose.call(this, drafted);
          },
      ),
  },
  {
    name: 'the wall clock is believed across lives',
    breaks: ['deadline-too-early', 'liveness'],
    apply: () => changeEvents(({ type }) => (type === 'run.recovered' ? { downtime_ms: 0 } : {})),
  },
  {
    name: 'a provider is asked for more than it may be',
    breaks: ['limits'],
    places: (places) => ({ ...places, perProvider: places.perProvider + 1 }),
  },
  {
    name: 'a client goes before the others whatever row it has',
    breaks: ['fair'],
    apply: () => {
      const waiting = WaitingRuns.prototype as unknown as {
        arrive(run: WaitingRun): { round: number; turn: number };
      };
      const row = ({ client }: WaitingRun) => hashOf(client) % 7;
      return patch(waiting, 'arrive', () => (run) => ({ round: row(run), turn: row(run) }));
    },
  },
  {
    name: 'no run is let in when one has ended',
    breaks: ['no-idle-place'],
    apply: () =>
      patch(
        Scheduler.prototype,
        'next',
        (next) =>
          function (this: Scheduler) {
            if (this.running > 0 || this.queued < 2) next.call(this);
          },
      ),
  },
  {
    name: 'a call of a tool begins before its start is on the disk',
    breaks: ['call-started'],
    apply: () => {
      const calls = ToolCalls.prototype as unknown as {
        options: { kernel: Kernel };
        propose(run_id: RunKey, event: { type: string; call: number }): void;
        begin(run_id: RunKey, call: unknown): void;
      };
      return patch(
        calls,
        'propose',
        (propose) =>
          function (this: typeof calls, run_id, event) {
            propose.call(this, run_id, event);
            const made = this.options.kernel.tail(run_id)?.context.calls[event.call - 1];
            if (event.type === 'run.tool_started') this.begin(run_id, made);
          },
      );
    },
  },
  {
    name: 'a call of a tool that was cut off is repeated after a crash',
    breaks: ['call-once'],
    apply: () =>
      changeEvents(({ type }) => (type === 'run.tool_requested' ? { repeatable: true } : {})),
  },
  {
    name: 'an edit of a file may be repeated, as a write may',
    breaks: ['call-once'],
    apply: () => patch(McpServers.prototype, 'mayRepeat', () => () => true),
  },
  {
    name: 'a call of a tool has a result before its work is done',
    breaks: ['call-done'],
    apply: () => {
      const calls = ToolCalls.prototype as unknown as {
        propose(run_id: RunKey, event: object): void;
        begin(run_id: RunKey, call: { call: number }): void;
      };
      return patch(
        calls,
        'begin',
        (begin) =>
          function (this: typeof calls, run_id, call) {
            begin.call(this, run_id, call);
            const finished = { type: 'run.tool_finished', text: '', is_error: false };
            this.propose(run_id, { ...finished, call: call.call });
          },
      );
    },
  },
  {
    name: 'a cancel is answered while the work goes on',
    breaks: ['cancel'],
    apply: () =>
      patch(
        RunExecutor.prototype,
        'stop',
        () =>
          function (this: RunExecutor, { run_id }) {
            this['recordEnd'](stream.run(run_id)).catch(() => {});
          },
      ),
  },
];
