import type Database from 'better-sqlite3';
import { TEXTS_FORMAT } from '../../../../machines/events.ts';
import { conflict } from '../row.ts';
import { raiseFormat } from '../schema.ts';
import {
  type Compact,
  damagedText,
  digestOf,
  expand,
  hasReferences,
  referencesIn,
} from '../texts.ts';

/**
 * The texts of a log, each once, and how many rows and texts refer to each of them.
 *
 * 1. A row or a text counts once for each text that it refers to, however often it does.
 * 2. A count changes in the transaction of the row. A text goes with the last one that refers to
 *    it.
 * 3. A text proves itself by its digest, at each read.
 * 4. The counts follow from the rows. So they are a table apart, with small rows.
 */
const TABLES = `
create table texts (id integer primary key, text text not null) strict;
create table text_users (
  digest text primary key,
  id integer not null,
  users integer not null
) strict, without rowid;`;

/** Creates the tables, unless they are there, and makes the counts again that may be wrong. */
export function addTexts(db: Database.Database): void {
  if (!hasTexts(db)) db.transaction(() => db.exec(TABLES))();
  if (db.prepare(`delete from meta where name = 'recount_texts' returning 1`).get() !== undefined)
    recountTexts(db);
  // A damaged table is found here, where the open reports it.
  db.prepare('select digest, u.id, users, text from text_users u join texts t on t.id = u.id');
}

function hasTexts(db: Database.Database): boolean {
  return db.prepare(`select 1 from sqlite_schema where name = 'texts'`).get() !== undefined;
}

/** SQL for a text in the record of a run: in the row, or referred to. A damaged one is null. */
export function textOf(name: string, data: string): string {
  const path = `'$.record.${name}'`;
  return `case json_type(${data}, ${path}) when 'array' then (
      select case when json_valid(t.text) then t.text ->> '$' end
      from text_users u join texts t on t.id = u.id
      where u.digest = ${data} ->> '$.record.${name}[0]'
    ) else ${data} ->> ${path} end`;
}

/** Condition on rows with references. */
export const REFERRING = 'instr(data, char(9)) > 0';

export class Texts {
  private readonly db: Database.Database;
  private readonly statements: ReturnType<typeof prepare> | null;
  /**
   * Digests of missing or damaged texts. Each text is written again with the next row that has it.
   */
  private readonly damaged = new Set<string>();

  /** A log of an older version has none. */
  constructor(db: Database.Database) {
    this.db = db;
    this.statements = hasTexts(db) ? prepare(db) : null;
  }

  /** Throws store_corrupt: a text is missing or damaged. */
  expand(data: string): string {
    return expand(data, (digest) => this.read(digest));
  }

  /** Throws store_corrupt. */
  read(digest: string): string {
    const text = this.find(digest);
    if (text !== null && digestOf(text) === digest) return text;
    if (this.damaged.size < DAMAGED_MAX) this.damaged.add(digest);
    throw damagedText(text === null ? 'is missing' : 'is damaged');
  }

  /** Null: it is missing. */
  find(digest: string): string | null {
    return this.statements?.text.get(digest) ?? null;
  }

  /**
   * Keeps the texts that a row needs, before the row is written. Throws store_conflict: one is
   * neither among these nor in the log.
   */
  keep({ text, texts }: Compact): void {
    for (const digest of this.damaged) this.mend(digest, texts.get(digest));
    if (!hasReferences(text)) return;
    raiseFormat(this.db, TEXTS_FORMAT);
    this.use(referencesIn(text), texts);
  }

  /** A text of another log, before the rows that need it. */
  add(text: string): void {
    const digest = digestOf(text);
    if (this.find(digest) === null) this.insert(digest, text, NONE, 0);
  }

  /** A row that refers to texts has gone. */
  release(data: string): void {
    if (!hasReferences(data) || this.statements === null) return;
    const { less, text, dropText, drop } = this.statements;
    for (const digest of referencesIn(data)) {
      const left = less.get(digest);
      if (left === undefined || left.users > 0) continue;
      const gone = text.get(digest);
      drop.run(digest);
      dropText.run(left.id);
      this.release(gone ?? '');
    }
  }

  /** A damaged row has gone, which may have referred to others. The next open counts again. */
  releaseDamaged(data: string): void {
    this.release(data);
    this.db.exec(`insert or replace into meta (name, value) values ('recount_texts', '')`);
  }

  /** Removes the texts without users. */
  dropUnused(): void {
    if (this.statements === null) return;
    const { unused, text, dropText, drop } = this.statements;
    for (let found = unused.all(); found.length > 0; found = unused.all())
      for (const { digest, id } of found) {
        const gone = text.get(digest);
        drop.run(digest);
        dropText.run(id);
        this.release(gone ?? '');
      }
  }

  /** Bytes of the texts that would go with these rows. */
  bytesOf(rows: Iterable<string>): number {
    const left = new Map<string, number>();
    let bytes = 0;
    const release = (data: string) => {
      for (const digest of referencesIn(data)) {
        const users = (left.get(digest) ?? this.statements?.users.get(digest) ?? 0) - 1;
        left.set(digest, users);
        if (users !== 0) continue;
        const text = this.find(digest) ?? '';
        bytes += Buffer.byteLength(text) + TEXT_BYTES;
        release(text);
      }
    };
    for (const data of rows) release(data);
    return bytes;
  }

  private use(digests: readonly string[], texts: Compact['texts']): void {
    for (const digest of digests) {
      if (this.requireStatements().more.run(digest).changes > 0) continue;
      const text = texts.get(digest);
      if (text === undefined) throw conflict(`The text ${digest} is missing.`);
      this.insert(digest, text, texts, 1);
    }
  }

  private insert(digest: string, text: string, texts: Compact['texts'], users: number): void {
    const { insertText, insert } = this.requireStatements();
    insert.run(digest, insertText.run(text).lastInsertRowid, users);
    this.use(referencesIn(text), texts);
  }

  private mend(digest: string, text: string | undefined): void {
    if (text === undefined) return;
    this.damaged.delete(digest);
    const { replace, insertText } = this.requireStatements();
    if (replace.run({ digest, text }).changes > 0) return;
    insertText.run(text);
    recountTexts(this.db);
  }

  private requireStatements(): ReturnType<typeof prepare> {
    if (this.statements === null) throw damagedText('is missing');
    return this.statements;
  }
}

const NONE: Compact['texts'] = new Map();
const DAMAGED_MAX = 10_000;
/** Bytes of a text beside itself, with its count. */
const TEXT_BYTES = 60;

/** Makes the counts again, and drops what no row needs, in the transaction of the caller. */
export function recountTexts(db: Database.Database): void {
  if (!hasTexts(db)) return;
  const users = usersIn(db);
  db.exec('delete from text_users');
  const insert = db.prepare<[string, number, number]>(
    'insert or ignore into text_users values (?, ?, ?)',
  );
  const page = db.prepare<[number], { id: number; text: string }>(
    'select id, text from texts where id > ? order by id limit 100',
  );
  const drop = db.prepare<[number]>('delete from texts where id = ?');
  for (let after = 0, rows = page.all(after); rows.length > 0; rows = page.all(after))
    for (const { id, text } of rows) {
      after = id;
      const digest = digestOf(text);
      // Nothing refers to a text that is damaged, or is there twice.
      if (insert.run(digest, id, users.get(digest) ?? 0).changes === 0) drop.run(id);
    }
  new Texts(db).dropUnused();
}

/** For how many texts the count is not that of the rows and texts that refer to them. */
export function countWrongCounts(db: Database.Database): number {
  if (!hasTexts(db)) return 0;
  const users = usersIn(db);
  const rows = db.prepare<[], { digest: string; users: number }>(
    'select digest, users from text_users',
  );
  let wrong = 0;
  for (const row of rows.iterate()) {
    if (users.get(row.digest) !== row.users) wrong += 1;
    users.delete(row.digest);
  }
  return wrong + users.size;
}

function usersIn(db: Database.Database): Map<string, number> {
  const users = new Map<string, number>();
  for (const rows of ['data from events', 'data from runs', 'text as data from texts'])
    for (const data of db
      .prepare<[], string>(`select data from (select ${rows}) where ${REFERRING}`)
      .pluck()
      .iterate())
      for (const digest of referencesIn(data)) users.set(digest, (users.get(digest) ?? 0) + 1);
  return users;
}

function prepare(db: Database.Database) {
  return {
    text: db
      .prepare<[string], string>(
        'select text from text_users u join texts t on t.id = u.id where digest = ?',
      )
      .pluck(),
    users: db.prepare<[string], number>('select users from text_users where digest = ?').pluck(),
    more: db.prepare<[string]>('update text_users set users = users + 1 where digest = ?'),
    less: db.prepare<[string], { id: number; users: number }>(
      'update text_users set users = users - 1 where digest = ? returning id, users',
    ),
    insertText: db.prepare<[string]>('insert into texts (text) values (?)'),
    insert: db.prepare<[string, number | bigint, number]>(
      'insert into text_users (digest, id, users) values (?, ?, ?)',
    ),
    replace: db.prepare<[{ digest: string; text: string }]>(
      `insert or replace into texts (id, text)
       select id, @text from text_users where digest = @digest`,
    ),
    dropText: db.prepare<[number]>('delete from texts where id = ?'),
    drop: db.prepare<[string]>('delete from text_users where digest = ?'),
    unused: db.prepare<[], { digest: string; id: number }>(
      'select digest, id from text_users where users <= 0 limit 100',
    ),
  };
}
