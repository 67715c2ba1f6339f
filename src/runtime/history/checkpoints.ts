import type { AnyMachineSnapshot } from 'xstate';
import { foldStream } from '../../kernel/fold.ts';
import { Instance } from '../../kernel/instance.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { DaemonKey } from '../../kernel/stream.ts';
import type { EventStore } from '../../store/port.ts';

/**
 * States along the long streams of the daemon, so that a fold to an old event is short.
 *
 * 1. They only save time. Without them, a fold from the beginning gives the same state.
 * 2. A stream keeps at most `kept_max`, spread evenly. When there are more, every other one is
 *    dropped.
 * 3. A few past boots keep theirs, the last used ones. The present boot makes them as its events
 *    arrive.
 */
export class Checkpoints {
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
   * Like `foldStream`, from the last checkpoint before. Events before it are not among the recent
   * ones of the instance.
   */
  fold(
    store: Pick<EventStore, 'readStream'>,
    stream: string,
    until_seq: number,
  ): Promise<Instance | undefined> {
    const row = this.row(stream);
    const start = row.points.findLast(({ seq }) => seq <= until_seq);
    return foldStream(
      store,
      stream,
      until_seq,
      start === undefined ? undefined : toInstance(stream, start),
      (instance) => this.note(row, instance),
    );
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
    if (version % row.every !== 0) return;
    const index = row.points.findLastIndex((point) => point.version <= version);
    if (row.points[index]?.version === version) return;
    row.points.splice(index + 1, 0, { version, seq, snapshot, path, since });
    if (row.points.length <= this.bounds.kept_max) return;
    row.every *= 2;
    row.points = row.points.filter((point) => point.version % row.every === 0);
  }
}

interface Row {
  /** Events between two checkpoints. */
  every: number;
  /** By version. */
  points: Point[];
}

interface Point {
  version: number;
  seq: number;
  snapshot: AnyMachineSnapshot;
  path: string;
  since: number;
}

function toInstance(stream: string, { version, seq, snapshot, path, since }: Point): Instance {
  const instance = new Instance(stream, snapshot, version);
  return Object.assign(instance, { seq, path, since });
}

const EVERY = 1000;
const KEPT_MAX = 256;
const BOOTS_MAX = 8;
