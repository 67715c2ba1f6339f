import type { AnyEvent } from '../../machines/events.ts';
import { can } from '../../machines/step.ts';
import type { Instance } from './instance.ts';
import type { Kernel } from './kernel.ts';
import type { Log } from './port.ts';
import type { Proposal } from './stream.ts';

/** Time between two tries of a deadline that its machine refuses. */
const REFUSED_AGAIN_MS = 100;

/** Proposes the events of deadlines when their time comes. An instance has one timer at most. */
export class DeadlineTimers {
  private readonly kernel: Pick<Kernel, 'clock' | 'append'>;
  private readonly log: Log;

  constructor(kernel: DeadlineTimers['kernel'], log: Log) {
    this.kernel = kernel;
    this.log = log;
  }

  /** Sets the timer to the earliest deadline. A timer that fires too early is set again. */
  arm(instance: Instance, notBefore = 0): void {
    const { clock } = this.kernel;
    let first = Number.POSITIVE_INFINITY;
    for (const { at } of instance.deadlines()) if (at < first) first = at;
    const at = Math.max(notBefore, first);
    if (at >= instance.armedFor) return;
    instance.disarm?.();
    instance.armedFor = at;
    instance.disarm = clock.after(at - clock.now(), () => this.fire(instance));
  }

  private fire(instance: Instance): void {
    instance.armedFor = Number.POSITIVE_INFINITY;
    const now = this.kernel.clock.now();
    const passed = instance.deadlines().filter((deadline) => deadline.at <= now);
    const due = passed.find((deadline) =>
      can(instance.tail, { ...deadline.event, at: now } as AnyEvent),
    );
    if (due !== undefined) {
      const { stream } = instance;
      this.kernel
        .append([{ stream, event: due.event } as Proposal])
        .catch((error: unknown) =>
          this.log.error({ err: error, stream }, 'a deadline could not be recorded'),
        );
    }
    this.arm(instance, passed.length > 0 && due === undefined ? now + REFUSED_AGAIN_MS : 0);
  }
}
