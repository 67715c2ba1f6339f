import type { RunSnapshot } from '../../machines/run/chart.ts';
import type { ReportRecord, RunRecord } from '../contract/contract.ts';
import type { NodeList, NodeRecord } from '../contract/nodes.ts';
import { SvcError } from '../errors.ts';
import { type Elsewhere, NobodyElse } from '../kernel/elsewhere.ts';
import { foldStream } from '../kernel/fold.ts';
import type { Instance } from '../kernel/instance.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { EventStore } from '../kernel/store/port.ts';
import type { RunKey } from '../kernel/stream.ts';
import { runRecord } from './runs/record.ts';
import { Unrecovered } from './runs/unrecovered.ts';

/**
 * The places of the runs of the log. One daemon has them all (`OneDaemon`), or several daemons
 * share the log (`src/fleet/`). The runtime uses only this interface, and knows no other daemon.
 */
export interface Placement {
  /** The events that other daemons append. */
  readonly elsewhere: Elsewhere;
  /**
   * The run of an idempotency key that this daemon does not know. No other daemon starts one
   * meanwhile. `find` looks again, and `start` accepts it with the id, if it gets one. Throws
   * busy, and the errors of both.
   */
  findOrStartRun(
    key: string,
    find: () => Promise<string | null>,
    start: (run_id?: RunKey) => Promise<string>,
  ): Promise<string>;
  /** Keeps other daemons out of a conversation meanwhile. Null: another daemon has it. */
  runExclusive<T>(
    conversation: string,
    run_id: RunKey,
    work: () => Promise<T>,
  ): Promise<{ done: T } | null>;
  /** The runs in the kernel are those of this daemon. Throws lease_lost, store_stalled. */
  confirm(): Promise<void>;
  /** Whether a run in the kernel is as any other daemon has read it. */
  isCurrent(instance: Pick<Instance, 'version' | 'tailVersion'>): boolean;
  /**
   * Waits for an unfinished run to be in the kernel, unless it may stay outside it. Throws
   * not_ready if it must be there and is not.
   */
  awaitAbsent(run_id: string): Promise<void>;
  /** An unfinished run that is not in the kernel. Throws not_ready, run_unknown. */
  record(run_id: string): Promise<RunRecord>;
  /** Resolves when the kernel has each run of earlier boots that it gets. */
  whenRecovered(): Promise<void>;
  /** Unfinished runs of this token that are not in the kernel. */
  runsElsewhere(asked_by: string, limit: number): Promise<string[]>;
  /** Throws busy if as many runs wait as one daemon accepts. `part`: the asker's part of them. */
  checkRoom(part: number): void;
  /** Resolves when the run has ended or is in the kernel, or is known to no daemon. */
  cancel(run_id: RunKey, by: string): Promise<void>;
  /** The missing model or provider of an unfinished run. Null: a daemon has it. */
  waitsFor(run_id: string): Promise<string | null>;
  readonly nodes: NodesPort;
  health(at: string): PlacementHealth;
}

export interface NodesPort {
  list(): Promise<NodeList>;
  /** Asks a node to finish its work and stop. Throws node_unknown. */
  drain(id: string): Promise<NodeRecord>;
}

export interface PlacementHealth {
  /** Why this daemon warns. */
  trouble: string | null;
  checks: ReportRecord['checks'];
}

/** A daemon without a fleet: all runs are in its kernel, but for the unrecovered ones. */
export class OneDaemon implements Placement {
  readonly elsewhere: Elsewhere;
  readonly nodes: NodesPort = {
    list: async () => ({ nodes: [] }),
    drain: async () => {
      const message = 'This daemon is not a node of a fleet.';
      throw new SvcError('node_unknown', message, { hint: 'Stop it with: svc stop' });
    },
  };

  private readonly unrecovered: Unrecovered;
  private readonly store: Pick<EventStore, 'readStream'> | null;

  /** `store`: where the unrecovered runs are. */
  constructor(
    kernel: Pick<Kernel, 'durableSeq' | 'subscribe'>,
    unrecovered = new Unrecovered(),
    store: Pick<EventStore, 'readStream'> | null = null,
  ) {
    this.elsewhere = new NobodyElse(kernel);
    this.unrecovered = unrecovered;
    this.store = store;
  }

  findOrStartRun: Placement['findOrStartRun'] = (_key, _find, start) => start();

  runExclusive: Placement['runExclusive'] = async (_conversation, _run_id, work) => ({
    done: await work(),
  });

  async confirm(): Promise<void> {}

  isCurrent(): boolean {
    return true;
  }

  /** Before the daemon is ready, it has recovered no run for sure. */
  async awaitAbsent(run_id: string): Promise<void> {
    if (!this.unrecovered.has(run_id)) throw new SvcError('not_ready');
    await this.unrecovered.wait(run_id);
  }

  async record(run_id: string): Promise<RunRecord> {
    const isThere = this.store !== null && this.unrecovered.has(run_id);
    const instance = isThere ? await foldStream(this.store, run_id) : undefined;
    if (instance === undefined) throw new SvcError('not_ready');
    return runRecord(instance.snapshot as RunSnapshot, instance.seq);
  }

  whenRecovered(): Promise<void> {
    return this.unrecovered.wait();
  }

  async runsElsewhere(): Promise<string[]> {
    return [];
  }

  checkRoom(): void {}

  cancel(run_id: RunKey): Promise<void> {
    return this.unrecovered.wait(run_id);
  }

  async waitsFor(): Promise<string | null> {
    return null;
  }

  health(): PlacementHealth {
    return { trouble: null, checks: {} };
  }
}
