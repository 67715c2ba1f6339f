import type { Kernel } from '../../kernel/kernel.ts';
import type { EventStore } from '../../kernel/store/port.ts';

/** The record of a finished run as JSON. It never changes, so responses share its bytes. */
export class RecordBytes {
  readonly bytes: Uint8Array;
  /** Responses that use it. Those who send it count them. */
  holders = 0;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }

  get size(): number {
    return this.bytes.length;
  }
}

/**
 * Reads the stored records of finished runs. It owns weak references to the large ones in use.
 *
 * 1. The bytes come from the thread of the store without a copy. They are never parsed here.
 * 2. Responses share one copy of a large record. It is free when the last of them ends.
 * 3. A removed run is not found, even while a response still sends its record.
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

  /** Null for a run that is unknown, unfinished or still in memory. */
  async read(run_id: string): Promise<RecordBytes | null> {
    if (!this.kernel.isOpen || this.kernel.instances.has(run_id)) return null;
    const record = this.reading.get(run_id) ?? this.readShared(run_id) ?? this.readStored(run_id);
    this.reading.set(run_id, record);
    return record;
  }

  private readStored(run_id: string): Promise<RecordBytes | null> {
    const read = async () => {
      const bytes = await this.store.readRecord(run_id);
      return bytes === null ? null : this.keep(run_id, new RecordBytes(bytes));
    };
    return read().finally(() => this.reading.delete(run_id));
  }

  private readShared(run_id: string): Promise<RecordBytes | null> | undefined {
    const shared = this.large.get(run_id)?.deref();
    if (shared === undefined) return undefined;
    const check = async () => ((await this.store.runHead(run_id)) === null ? null : shared);
    return check().finally(() => this.reading.delete(run_id));
  }

  private keep(run_id: string, record: RecordBytes): RecordBytes {
    if (record.size < LARGE_BYTES) return record;
    for (const [id, kept] of this.large) if (kept.deref() === undefined) this.large.delete(id);
    this.large.set(run_id, new WeakRef(record));
    return record;
  }
}

/** Reading a smaller record again is faster than sharing it. */
const LARGE_BYTES = 64 * 1024;
