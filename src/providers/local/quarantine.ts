import { readFileSync } from 'node:fs';
import { rename, writeFile } from 'node:fs/promises';

/** A refused version of a file. */
export interface Sentence {
  version: string;
  /** End of the sentence "The model …". */
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
  private readonly held: Map<string, Sentence>;
  private writing: Promise<void> = Promise.resolve();

  constructor(file: string, now: () => number) {
    this.file = file;
    this.now = now;
    this.held = readHeld(file);
  }

  find(path: string, version: string): Sentence | null {
    const sentence = this.held.get(path);
    return sentence !== undefined && sentence.version === version && sentence.until > this.now()
      ? sentence
      : null;
  }

  async hold(path: string, sentence: Sentence): Promise<void> {
    this.held.delete(path);
    this.held.set(path, sentence);
    for (const [other, { until }] of this.held)
      if (until <= this.now() || this.held.size > ENTRIES_MAX) this.held.delete(other);
    this.writing = this.writing.then(() => this.write());
    await this.writing;
  }

  /**
   * Writes a new file and renames it, so that no reader finds half a file. A failed write only
   * loses the memory of a restart.
   */
  private async write(): Promise<void> {
    const draft = `${this.file}.${process.pid}`;
    try {
      await writeFile(
        draft,
        `${JSON.stringify({ held: Object.fromEntries(this.held) }, null, 2)}\n`,
        { mode: 0o600 },
      );
      await rename(draft, this.file);
    } catch {}
  }
}

const ENTRIES_MAX = 64;

function readHeld(file: string): Map<string, Sentence> {
  try {
    const { held } = JSON.parse(readFileSync(file, 'utf8')) as { held: Record<string, unknown> };
    const known = Object.entries(held).filter((entry): entry is [string, Sentence] =>
      isSentence(entry[1]),
    );
    return new Map(known.slice(-ENTRIES_MAX));
  } catch {
    return new Map();
  }
}

function isSentence(value: unknown): value is Sentence {
  const { version, reason, until } = (value ?? {}) as Partial<Sentence>;
  return typeof version === 'string' && typeof reason === 'string' && Number.isSafeInteger(until);
}
