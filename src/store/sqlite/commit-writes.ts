import type Database from 'better-sqlite3';
import { chain } from '../chain.ts';
import { checkContinuity } from '../continuity.ts';
import type { Mark } from '../files/high-water.ts';
import type { CommitRows } from '../row.ts';
import { UsageTable } from '../usage.ts';
import type { Words } from '../words.ts';
import { eventValues, type prepareWrites, RunWrites } from './writes.ts';

/** Writes commits, in the transaction of the caller. */
export class CommitWrites {
  readonly runs: RunWrites;
  readonly usage: UsageTable;
  private readonly statements: ReturnType<typeof prepareWrites>;

  constructor(
    db: Database.Database,
    statements: ReturnType<typeof prepareWrites>,
    words: Pick<Words, 'add'>,
  ) {
    this.statements = statements;
    this.runs = new RunWrites(db, words);
    this.usage = new UsageTable(db);
  }

  /** Returns the new end of the log. Throws store_conflict. */
  write({ events, runs, embeddings }: CommitRows, last: Mark): Mark {
    const { lastVersion, insertEvent } = this.statements;
    checkContinuity({ events, runs }, last.seq, (stream) => lastVersion.get(stream) ?? 0);
    let end = last;
    for (const event of events) {
      end = { seq: event.seq, hash: chain(end.hash, event) };
      insertEvent.run(...eventValues(event, Buffer.from(end.hash, 'hex')));
    }
    for (const { usage } of runs) if (usage !== null) this.usage.add(usage);
    for (const usage of embeddings) this.usage.addEmbedding(usage);
    for (const line of runs) this.runs.write(line, events);
    return end;
  }
}
