import { admit, type Places } from '../../machines/admit.ts';
import type { DaemonSnapshot } from '../../machines/daemon.ts';
import type { RunRequest } from '../../machines/events.ts';
import type { RunSnapshot } from '../../machines/run.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { RUN_PREFIX } from '../kernel/kinds.ts';
import type { Log } from '../kernel/port.ts';

/**
 * Who waits and who is being answered.
 *
 * 1. Both lists follow the run machines; nothing is in them that is not unsettled.
 * 2. The order of the queue is the order of acceptance, also after a restart.
 * 3. A settled run is told to the daemon machine, once.
 */
export class Dispatch {
  private readonly queue = new Map<string, RunRequest>();
  private readonly active = new Map<string, RunRequest>();
  private readonly kernel: Kernel;
  private readonly daemon: string;
  private readonly places: Places;
  private readonly log: Log;

  constructor(options: { kernel: Kernel; daemon: string; places: Places; log: Log }) {
    this.kernel = options.kernel;
    this.daemon = options.daemon;
    this.places = options.places;
    this.log = options.log;
    this.kernel.onFact((event, snapshot) => {
      if (event.stream.startsWith(RUN_PREFIX) && event.type !== 'run.output_appended') this.follow(event.stream, snapshot as unknown as RunSnapshot);
    });
  }

  get queued(): number {
    return this.queue.size;
  }

  get running(): number {
    return this.active.size;
  }

  activeRuns(): string[] {
    return [...this.active.keys()];
  }

  /** 1 is the next to start; null when the run is not queued. */
  position(run_id: string): number | null {
    const index = [...this.queue.keys()].indexOf(run_id);
    return index < 0 ? null : index + 1;
  }

  /** Puts a run that the last boot left queued back into the queue. */
  requeue(run_id: string, snapshot: RunSnapshot): void {
    this.queue.set(run_id, snapshot.context.request);
  }

  /** Starts what may start now. */
  next(): void {
    const daemon = this.kernel.tail<DaemonSnapshot>(this.daemon);
    if (daemon === undefined || !(daemon.hasTag('ready') || daemon.matches({ stopping: 'draining' }))) return;
    const waiting = [...this.queue].map(([run_id, { provider, model }]) => ({ run_id, provider, model }));
    for (const run_id of admit(waiting, [...this.active.values()], this.places)) {
      const request = this.queue.get(run_id);
      if (request === undefined || !this.kernel.accepts(run_id, { type: 'run.started', attempt: 1 })) continue;
      this.queue.delete(run_id);
      this.active.set(run_id, request);
      this.report(this.kernel.submit(run_id, { type: 'run.started', attempt: 1 }), run_id);
    }
  }

  private follow(run_id: string, snapshot: RunSnapshot): void {
    const { request } = snapshot.context;
    if (snapshot.matches('queued')) {
      if (!this.active.has(run_id)) this.queue.set(run_id, request);
    } else {
      this.queue.delete(run_id);
      if (snapshot.status === 'active') this.active.set(run_id, request);
      else this.settle(run_id);
    }
    this.next();
  }

  private settle(run_id: string): void {
    this.active.delete(run_id);
    this.kernel.forget(run_id);
    this.report(this.kernel.submit(this.daemon, { type: 'daemon.run_settled', run_id }), run_id);
  }

  private report(recorded: Promise<unknown>, run_id: string): void {
    recorded.catch((error: unknown) => this.log.error({ err: error, run_id }, 'a fact of the queue could not be recorded'));
  }
}
