import Database from 'better-sqlite3';
import { schemaOf } from '../../../src/kernel/store/schema.ts';
import type { Place } from './samples.ts';
import type { TextsOf } from './texts-conformance.ts';

/** What the database of a closed log has of texts. */
export function textsIn({ database }: Pick<Place, 'database'>): TextsOf {
  const inDatabase = async <T>(work: (db: Database.Database) => T): Promise<T> => {
    const db = new Database(database);
    try {
      return work(db);
    } finally {
      db.close();
    }
  };
  return {
    all: () =>
      inDatabase((db) =>
        db
          .prepare<[], { text: string; users: number }>(
            'select text, users from text_users u join texts t on t.id = u.id order by t.id',
          )
          .all(),
      ),
    change: (like, to) =>
      inDatabase((db) => {
        if (to === null) db.prepare('delete from texts where text like ?').run(like);
        else db.prepare('update texts set text = ? where text like ?').run(to, like);
      }),
    format: () => inDatabase((db) => schemaOf(Number(db.pragma('user_version', { simple: true })))),
  };
}
