import type { AnyMachineSnapshot } from 'xstate';
import type { DaemonSnapshot } from '../../machines/daemon/chart.ts';
import { countOf } from '../../machines/daemon/counts.ts';
import type { AnyEvent } from '../../machines/events.ts';
import { can, init, statePath, step } from '../../machines/step.ts';
import { machineOf } from '../../src/kernel/registry.ts';
import { type StoredEvent, toEvent } from '../../src/kernel/store/port.ts';
import { isRun } from '../../src/kernel/stream.ts';

/** One step of a machine; `before` is undefined at its first event. */
export interface Step {
  machine: string;
  event: AnyEvent;
  before: AnyMachineSnapshot | undefined;
  after: AnyMachineSnapshot;
}

/** The state of every machine of a log, folded by the definitions of the machines alone. */
export class LogFold {
  readonly states = new Map<string, AnyMachineSnapshot>();
  private readonly accepted_by = new Map<string, string>();

  /** The steps that an event makes. Throws if a machine refuses an event of its log. */
  add(stored: StoredEvent): Step[] {
    const { stream, boot_id, type, at } = stored;
    const own = this.take(stream, toEvent(stored));
    if (!isRun(stream)) return [own];
    if (own.before === undefined) this.accepted_by.set(stream, boot_id);
    if (this.accepted_by.get(stream) !== boot_id) return [own];
    const daemon = `daemon:${boot_id}`;
    const state = this.states.get(daemon) as DaemonSnapshot | undefined;
    const event = state === undefined ? null : countOf(state, { type, run_id: stream, at });
    return event === null ? [own] : [own, this.take(daemon, event)];
  }

  private take(stream: string, event: AnyEvent): Step {
    const machine = machineOf(stream);
    const before = this.states.get(stream);
    if (before !== undefined && !can(before, event))
      throw new Error(`${stream} was ${statePath(before)} when ${event.type} was recorded`);
    const after =
      before === undefined ? init(machine, event).snapshot : step(machine, before, event).snapshot;
    this.states.set(stream, after);
    return { machine: machine.id, event, before, after };
  }
}
