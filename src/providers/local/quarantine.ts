import { readFileSync } from 'node:fs';
import { writeAtomic } from '../../home/atomic-write.ts';

/** A refused version of a file. */
export interface Refusal {
  version: string;
  /** End of the refusal "The model …". */
  reason: string;
  until: number;
}

/**
 * Versions of model files that hung or killed the engine, by path.
 *
 * 1. A version is refused until its time is over, also after a restart. Another version is free at
 *    once.
 * 2. At most `ENTRIES_MAX` are kept. The oldest are dropped.
 * 3. An unreadable file counts as empty: its content only saves time.
 */
export class Quarantine {
  private readonly file: string;
  private readonly now: () => number;
  private readonly refusals: Map<string, Refusal>;
  private writing: Promise<void> = Promise.resolve();

  constructor(file: string, now: () => number) {
    this.file = file;
    this.now = now;
    this.refusals = readRefusals(file);
  }

  has(path: string): boolean {
    return this.refusals.has(path);
  }

  find(path: string, version: string): Refusal | null {
    const refusal = this.refusals.get(path);
    return refusal !== undefined && refusal.version === version && refusal.until > this.now()
      ? refusal
      : null;
  }

  async add(path: string, refusal: Refusal): Promise<void> {
    this.refusals.delete(path);
    this.refusals.set(path, refusal);
    for (const [other, { until }] of this.refusals)
      if (until <= this.now() || this.refusals.size > ENTRIES_MAX) this.refusals.delete(other);
    this.writing = this.writing.then(() => this.write());
    await this.writing;
  }

  /** A failed write only loses the memory of a restart. */
  private async write(): Promise<void> {
    const text = JSON.stringify({ held: Object.fromEntries(this.refusals) }, null, 2);
    await writeAtomic(this.file, `${text}\n`).catch(() => {});
  }
}

const ENTRIES_MAX = 64;

function readRefusals(file: string): Map<string, Refusal> {
  try {
    const { held } = JSON.parse(readFileSync(file, 'utf8')) as { held: Record<string, unknown> };
    const known = Object.entries(held).filter((entry): entry is [string, Refusal] =>
      isRefusal(entry[1]),
    );
    return new Map(known.slice(-ENTRIES_MAX));
  } catch {
    return new Map();
  }
}

function isRefusal(value: unknown): value is Refusal {
  const { version, reason, until } = (value ?? {}) as Partial<Refusal>;
  return typeof version === 'string' && typeof reason === 'string' && Number.isSafeInteger(until);
}
