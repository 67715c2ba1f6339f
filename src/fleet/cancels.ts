import { SvcError } from '../errors.ts';
import type { Elsewhere, Watch } from '../kernel/elsewhere.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { Log } from '../kernel/port.ts';
import { type RunKey, stream } from '../kernel/stream.ts';
import type { EventStore } from '../store/port.ts';
import type { Claims } from './claims.ts';
import type { Fleet } from './port.ts';

export interface CancelsOptions {
  fleet: Pick<Fleet, 'ask' | 'asks'>;
  store: Pick<EventStore, 'runHead'>;
  kernel: Kernel;
  changes: Elsewhere;
  claims: Pick<Claims, 'takeOne'>;
  poll_ms: number;
  log: Log;
}

/**
 * Cancels runs of other nodes, and those of this node for others.
 *
 * 1. A run that waits on no node is taken, and cancelled here.
 * 2. Otherwise the node that owns the run is asked to cancel it. The request is stored, so a
 *    successor of that node finds it.
 * 3. The node that asks looks again at each poll: the run may have lost its owner since.
 */
export class Cancels {
  private readonly options: CancelsOptions;

  constructor(options: CancelsOptions) {
    this.options = options;
  }

  /** Resolves when the run has ended, or is in this kernel. Throws daemon_stopping. */
  async cancel(run_id: RunKey, by: string): Promise<void> {
    const { kernel, changes, claims, fleet, poll_ms } = this.options;
    const watch = changes.watch(run_id);
    try {
      for (let asked_at = Number.NEGATIVE_INFINITY; ; ) {
        if (kernel.closed) throw new SvcError('daemon_stopping');
        if (kernel.instance(run_id) !== undefined || (await this.isOver(run_id))) return;
        const now = kernel.clock.now();
        if (now - asked_at >= poll_ms) {
          asked_at = now;
          if (await claims.takeOne(run_id, { by })) return;
          await fleet.ask(run_id, by);
        }
        await this.news(watch, asked_at + poll_ms - now);
      }
    } finally {
      watch.end();
    }
  }

  /** Cancels the runs of this node that others ask to cancel. */
  async serve(): Promise<void> {
    const { fleet, kernel, log } = this.options;
    for (const { run_id, by } of await fleet.asks())
      kernel
        .tryAppend(stream.run(run_id), { type: 'run.cancel_requested', by })
        .catch((error: unknown) => log.error({ err: error, run_id }, 'a run is not cancelled'));
  }

  private async isOver(run_id: RunKey): Promise<boolean> {
    const head = await this.options.store.runHead(run_id);
    return head === null || head.finished;
  }

  private async news(watch: Watch, ms: number) {
    const over = new AbortController();
    const cancel = this.options.kernel.clock.after(ms, () => over.abort());
    await watch.next(over.signal);
    cancel();
  }
}
