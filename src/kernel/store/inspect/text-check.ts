import type Database from 'better-sqlite3';
import { isDamage } from '../failure.ts';
import { Texts } from '../sqlite/texts-table.ts';
import { digestOf, hasReferences, referencesIn } from '../texts.ts';

/** Digests that are remembered. Beyond that, texts are read again. */
const KNOWN_MAX = 200_000;

/** Checks the texts that rows refer to, each once. */
export class TextCheck {
  private readonly texts: Texts;
  private readonly known = new Map<string, boolean>();
  /** Characters of the texts that were read. */
  chars = 0;

  constructor(db: Database.Database) {
    this.texts = new Texts(db);
  }

  /** Whether all texts that these data need are there, and agree with their digests. */
  isWhole(data: string): boolean {
    return !hasReferences(data) || referencesIn(data).every((digest) => this.isGood(digest));
  }

  /** Texts are read again. */
  forget(): void {
    this.known.clear();
  }

  /** Null: it is missing, or in a damaged page. */
  private find(digest: string): string | null {
    try {
      return this.texts.find(digest);
    } catch (error) {
      if (!isDamage(error)) throw error;
      return null;
    }
  }

  private isGood(digest: string): boolean {
    const known = this.known.get(digest);
    if (known !== undefined) return known;
    const text = this.find(digest);
    this.chars += text?.length ?? 0;
    const isGood = text !== null && digestOf(text) === digest && this.isWhole(text);
    if (this.known.size >= KNOWN_MAX) this.forget();
    this.known.set(digest, isGood);
    return isGood;
  }
}
