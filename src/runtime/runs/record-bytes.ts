import type { Kernel } from '../../kernel/kernel.ts';
import type { EventStore } from '../../store/port.ts';
import type { SharedBytes } from '../send/unsent-bytes.ts';

/** The record of a finished run as JSON. It never changes, and all who are sent it share it. */
export class RecordBytes implements SharedBytes {
  readonly bytes: Uint8Array;
  holders = 0;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }

  get size(): number {
    return this.bytes.length;
  }
}

/**
 * The records of finished runs, as they are stored. It owns which large records clients are being sent.
 *
 * 1. A record is neither parsed nor written again here: its bytes come from the thread of the store, without a copy.
 * 2. A large record that clients are being sent is in memory once. Nothing keeps it when the last of them has it.
 * 3. A run that was removed meanwhile is not found, whoever is still being sent it.
 */
export class Records {
  private readonly kernel: Kernel;
  private readonly store: Pick<EventStore, 'readRecord' | 'runHead'>;
  private readonly large = new Map<string, WeakRef<RecordBytes>>();
  private readonly reading = new Map<string, Promise<RecordBytes | null>>();

  constructor(kernel: Kernel, store: Pick<EventStore, 'readRecord' | 'runHead'>) {
    this.kernel = kernel;
    this.store = store;
  }

  /** Null for a run that is not there, or not finished, or still in memory. */
  async read(run_id: string): Promise<RecordBytes | null> {
    if (!this.kernel.isOpen || this.kernel.instances.has(run_id)) return null;
    const asked = this.reading.get(run_id) ?? this.again(run_id) ?? this.first(run_id);
    this.reading.set(run_id, asked);
    return asked;
  }

  private first(run_id: string): Promise<RecordBytes | null> {
    const read = async () => {
      const bytes = await this.store.readRecord(run_id);
      return bytes === null ? null : this.keep(run_id, new RecordBytes(bytes));
    };
    return read().finally(() => this.reading.delete(run_id));
  }

  private again(run_id: string): Promise<RecordBytes | null> | undefined {
    const found = this.large.get(run_id)?.deref();
    if (found === undefined) return undefined;
    const look = async () => ((await this.store.runHead(run_id)) === null ? null : found);
    return look().finally(() => this.reading.delete(run_id));
  }

  private keep(run_id: string, record: RecordBytes): RecordBytes {
    if (record.size < LARGE_BYTES) return record;
    for (const [id, kept] of this.large) if (kept.deref() === undefined) this.large.delete(id);
    this.large.set(run_id, new WeakRef(record));
    return record;
  }
}

/** A smaller record is read again faster than it is found. */
const LARGE_BYTES = 64 * 1024;
