import type { AnyMachineSnapshot } from 'xstate';
import type { DaemonSnapshot } from '../../../machines/daemon/chart.ts';
import { foldCount, foldEvent } from '../../kernel/fold.ts';
import { Instance } from '../../kernel/instance.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { pagesOf } from '../../kernel/pages.ts';
import type { EventStore, RunBound } from '../../kernel/store/port.ts';
import { type DaemonKey, stream as keys } from '../../kernel/stream.ts';

type Reader = Pick<EventStore, 'readStream' | 'runBounds'>;

/**
 * Past states of daemons, folded from their own events and the bounds of their runs. It keeps
 * states at some positions, so that a fold to an old event is short.
 *
 * 1. They only save time. Without them, a fold from the beginning gives the same state.
 * 2. A boot keeps at most `kept_max`, spread evenly. When there are more, every other one is
 *    dropped.
 * 3. A few past boots keep theirs, the last used ones. The present boot makes them as its events
 *    arrive.
 */
export class DaemonStates {
  private readonly rows = new Map<string, Row>();
  private readonly live: string;
  private readonly bounds: { every: number; kept_max: number };

  constructor(kernel: Kernel, daemon: DaemonKey, bounds = { every: EVERY, kept_max: KEPT_MAX }) {
    this.live = daemon;
    this.bounds = bounds;
    kernel.subscribe({ stream: daemon }, ({ stream }) => {
      const instance = kernel.instance(stream);
      if (instance !== undefined) this.note(this.row(stream), instance);
    });
  }

  /**
   * The daemon of a boot at a position of the log; undefined when the log does not have its
   * beginning. Its recent events are not whole.
   */
  async fold(store: Reader, boot_id: string, until: number): Promise<Instance | undefined> {
    const stream = keys.daemon(boot_id);
    const row = this.row(stream);
    const start = row.points.findLast(({ seq }) => seq <= until);
    let instance = start === undefined ? undefined : toInstance(stream, boot_id, start);
    const counting = new Counting(store, boot_id, start?.seq ?? 0, until);
    const count = async (before: number): Promise<void> => {
      if (instance === undefined || !(instance.snapshot as DaemonSnapshot).context.counts_runs)
        return;
      for (let bound = await counting.next(before); bound !== null; ) {
        if (bound.accepted_by === boot_id && foldCount(instance, bound)) this.note(row, instance);
        bound = await counting.next(before);
      }
    };
    for await (const page of pagesOf(store, stream, (start?.version ?? 0) + 1)) {
      for (const stored of page) {
        if (instance === undefined && stored.version !== 1) return undefined;
        if (stored.seq > until) break;
        await count(stored.seq);
        instance = foldEvent(instance, stored);
        this.note(row, instance);
      }
      if ((page.at(-1)?.seq ?? 0) > until) break;
    }
    await count(until + 1);
    return instance;
  }

  private row(stream: string): Row {
    const row = this.rows.get(stream) ?? { every: this.bounds.every, points: [] };
    this.rows.delete(stream);
    this.rows.set(stream, row);
    const oldest = [...this.rows.keys()].find((name) => name !== this.live);
    if (this.rows.size > BOOTS_MAX && oldest !== undefined) this.rows.delete(oldest);
    return row;
  }

  private note(row: Row, { version, seq, snapshot, path, since }: Instance): void {
    const index = row.points.findLastIndex((point) => point.seq <= seq);
    const near = [row.points[index], row.points[index + 1]];
    if (near.some((point) => point !== undefined && Math.abs(point.seq - seq) < row.every)) return;
    row.points.splice(index + 1, 0, { version, seq, snapshot, path, since });
    if (row.points.length <= this.bounds.kept_max) return;
    row.every *= 2;
    row.points = row.points.filter((_, place) => place % 2 === 0);
  }
}

interface Row {
  /** Positions between two states at least. */
  every: number;
  /** By position. */
  points: Point[];
}

interface Point {
  version: number;
  seq: number;
  snapshot: AnyMachineSnapshot;
  path: string;
  since: number;
}

function toInstance(
  stream: string,
  boot_id: string,
  { version, seq, snapshot, path, since }: Point,
): Instance {
  const instance = new Instance(stream, boot_id, snapshot, version);
  return Object.assign(instance, { seq, path, since });
}

/** The bounds of the runs of a boot, in order. */
class Counting {
  private readonly store: Reader;
  private readonly boot_id: string;
  private readonly until: number;
  private waiting: RunBound[] = [];
  private read_to: number;

  constructor(store: Reader, boot_id: string, after: number, until: number) {
    this.store = store;
    this.boot_id = boot_id;
    this.until = until;
    this.read_to = after;
  }

  /** The nearest earlier page; null if no page is left. */
  async next(before: number): Promise<RunBound | null> {
    while (this.waiting.length === 0 && this.read_to < Math.min(before - 1, this.until)) {
      const to = Math.min(this.read_to + LOOKED_AT, this.until);
      this.waiting = (await this.store.runBounds(this.boot_id, this.read_to, to)).reverse();
      this.read_to = to;
    }
    return (this.waiting.at(-1)?.seq ?? before) < before ? (this.waiting.pop() ?? null) : null;
  }
}

const EVERY = 4000;
const KEPT_MAX = 256;
const BOOTS_MAX = 8;
/** Events of one read. The thread of the log answers other requests between two reads. */
const LOOKED_AT = 10_000;
