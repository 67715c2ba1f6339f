import { hash } from 'node:crypto';
import { SvcError } from '../../errors.ts';
import { IMPORT_LINE_BYTES_MAX } from '../../limits.ts';

/**
 * Content is stored once. A long part of the JSON of an event, or of the row of a run, is a text
 * apart. The JSON refers to it. A text may refer to others.
 *
 * 1. A reference is a tab and a list with the digest of the text. `JSON.stringify` writes a tab
 *    only as an escape, so no content looks like one, and JSON with references is JSON.
 * 2. To expand is to put texts in the place of references. So each character comes back.
 * 3. A long list is a tree of groups. What ends a group is said by its last item, so a list with
 *    one more or one other item has nearly the same groups.
 * 4. The lengths here may change at any time: they only say what is found again.
 */

/** JSON with references, and the texts that it needs, by their digests. */
export interface Compact {
  text: string;
  texts: ReadonlyMap<string, string>;
}

/**
 * A shorter part stays where it is. Names that an index reads are shorter, and so are the texts of
 * a short record that are not cut.
 */
export const TEXT_MIN = 256;
/** Most objects are of one row, and their long texts are apart already. */
const OBJECT_MIN = 512;
const [GROUP_MIN, GROUP_MAX] = [256, 4096];
/** One item in four ends a group. */
const BORDER = 3;
/** Deeper values are not looked into. */
const DEPTH_MAX = 24;
/** References behind each other: for each depth, the groups of a list. */
const CHAIN_MAX = 24 * DEPTH_MAX;

const MARK = '\t';
const REFERENCE = /\t\["([\w-]{32})"\]/y;
const REFERENCES = new RegExp(REFERENCE.source, 'g');
const DIGEST_CHARS = 32;
/** The same for PostgreSQL. */
export const REFERENCE_PATTERN = '\\t\\["([A-Za-z0-9_-]{32})"\\]';

export function digestOf(text: string): string {
  return hash('sha256', text, 'base64url').slice(0, DIGEST_CHARS);
}

export function hasReferences(text: string): boolean {
  return text.includes(MARK);
}

/** The digests that a text refers to, each once. */
export function referencesIn(text: string): string[] {
  if (!hasReferences(text)) return [];
  return [...new Set(Array.from(text.matchAll(REFERENCES), ([, digest = '']) => digest))];
}

/** The data of an event. Its own fields stay, but for those that are long. */
export function compactEvent(data: string): Compact {
  return compact(data, (compactor) => compactor.object((value) => value.kept(1)));
}

/**
 * The row of a run. Its own texts stay, which indexes read. So do the fields of its record, and the
 * heads of its texts, which lists read.
 */
export function compactRun(data: string): Compact {
  const record = (value: Compactor, key: string) =>
    value.isObject() && key !== HEADS ? value.object((field) => field.kept(2)) : value.plain();
  return compact(data, (compactor) => compactor.object(record));
}

function compact(data: string, root: (compactor: Compactor) => string): Compact {
  if (data.length < TEXT_MIN || data[0] !== '{') return { text: data, texts: NONE };
  const compactor = new Compactor(data);
  const text = root(compactor);
  return compactor.texts.size === 0
    ? { text: data, texts: NONE }
    : { text, texts: compactor.texts };
}

const HEADS = '"heads"';

/** Data that were compacted before. Their texts are in the log. */
export function asStored(text: string): Compact {
  return { text, texts: NONE };
}

const NONE: ReadonlyMap<string, string> = new Map();

/**
 * The text with all its references expanded. `read` finds a text, or throws. Throws store_corrupt
 * for an invalid reference, and beyond all bounds.
 */
export function expand(text: string, read: (digest: string) => string): string {
  const known = new Map<string, string>();
  const expanded = (part: string, depth: number): string => {
    let at = part.indexOf(MARK);
    if (at < 0) return part;
    let [whole, from] = ['', 0];
    for (; at >= 0; at = part.indexOf(MARK, from)) {
      REFERENCE.lastIndex = at;
      const digest = REFERENCE.exec(part)?.[1];
      const end = REFERENCE.lastIndex;
      if (digest === undefined || depth > CHAIN_MAX) throw damagedText('is damaged');
      const found = known.get(digest) ?? expanded(read(digest), depth + 1);
      known.set(digest, found);
      const size = whole.length + found.length + part.length;
      if (size > IMPORT_LINE_BYTES_MAX) throw damagedText('is damaged');
      whole += part.slice(from, at) + found;
      from = end;
    }
    return whole + part.slice(from);
  };
  return expanded(text, 0);
}

/** The error of a text that cannot be used. `problem`: the end of a sentence. */
export function damagedText(problem: string): SvcError {
  return new SvcError('store_corrupt', `A text of the log ${problem}.`);
}

/** The problem of a row that refers to such a text, as the end of a sentence. */
export const USES = 'uses a text that is missing or damaged';

/** The member of an object as it is in its JSON; null if it is absent. */
export function memberOf(data: string, name: string): string | null {
  let found: string | null = null;
  const look = (value: Compactor, key: string) => {
    const text = value.plain();
    if (key === JSON.stringify(name)) found = text;
    return text;
  };
  new Compactor(data).object(look);
  return found;
}

/** The object with some members replaced, as JSON. Null: the member stays. */
export function withMembers(
  data: string,
  replace: (name: string, value: string) => string | null,
): string {
  return new Compactor(data).object((value, key) => {
    const text = value.plain();
    return replace(JSON.parse(key) as string, text) ?? text;
  });
}

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const [OBJECT, OBJECT_END, LIST, LIST_END] = [0x7b, 0x7d, 0x5b, 0x5d];

/**
 * Reads one value of JSON that has no white space, apart from references, and writes it again with
 * references. It owns the place in the text.
 */
class Compactor {
  readonly texts = new Map<string, string>();
  private readonly json: string;
  private at = 0;

  constructor(json: string) {
    this.json = json;
  }

  isObject(): boolean {
    return this.here() === OBJECT;
  }

  /** The next value, or a reference to it. */
  kept(depth: number): string {
    const min = this.isObject() ? OBJECT_MIN : TEXT_MIN;
    const text = this.compact(depth);
    return text.length < min ? text : this.refer(text);
  }

  /** The next value as it is. */
  plain(): string {
    const from = this.at;
    if (this.json[from] === MARK) this.at += 1;
    const char = this.here();
    if (char === QUOTE) this.string();
    else if (char === OBJECT || char === LIST) this.skipNested();
    else this.scalar();
    return this.json.slice(from, this.at);
  }

  /** The next value, an object. `member` reads the value of each key. */
  object(member: (value: Compactor, key: string) => string): string {
    let [text, from] = ['', this.at];
    this.at += 1;
    while (this.here() !== OBJECT_END) {
      if (this.here() === COMMA) this.at += 1;
      const keyAt = this.at;
      this.string();
      const key = this.json.slice(keyAt, this.at);
      this.at += 1;
      const valueAt = this.at;
      const value = member(this, key);
      if (value === this.json.slice(valueAt, this.at)) continue;
      text += this.json.slice(from, valueAt) + value;
      from = this.at;
    }
    this.at += 1;
    return text + this.json.slice(from, this.at);
  }

  private compact(depth: number): string {
    const char = this.here();
    if (depth < DEPTH_MAX && char === OBJECT) return this.object((value) => value.kept(depth + 1));
    if (depth < DEPTH_MAX && char === LIST) return this.list(depth);
    return this.plain();
  }

  private list(depth: number): string {
    const items: string[] = [];
    this.at += 1;
    while (this.here() !== LIST_END) {
      if (this.here() === COMMA) this.at += 1;
      items.push(this.kept(depth + 1));
    }
    this.at += 1;
    return `[${this.groupItems(items).join(',')}]`;
  }

  /** The items, with references to groups of them, to groups of these, and so on. */
  private groupItems(items: string[]): string[] {
    const grouped: string[] = [];
    let group: string[] = [];
    let size = 0;
    for (const item of items) {
      group.push(item);
      size += item.length + 1;
      if (size < GROUP_MIN || !(size >= GROUP_MAX || isBorder(item))) continue;
      grouped.push(this.refer(group.join(',')));
      [group, size] = [[], 0];
    }
    if (grouped.length === 0) return items;
    for (const item of group) grouped.push(item);
    return this.groupItems(grouped);
  }

  private refer(text: string): string {
    const digest = digestOf(text);
    this.texts.set(digest, text);
    return `${MARK}["${digest}"]`;
  }

  /** Passes a string. */
  private string(): void {
    const { json } = this;
    let end = this.at;
    let escapes: number;
    do {
      end = json.indexOf('"', end + 1);
      if (end < 0) throw damagedText('is not JSON');
      escapes = 0;
      while (json.charCodeAt(end - 1 - escapes) === BACKSLASH) escapes += 1;
    } while (escapes % 2 === 1);
    this.at = end + 1;
  }

  /** Passes an object or a list, however deep it is. */
  private skipNested(): void {
    let open = 0;
    do {
      const char = this.here();
      if (char === QUOTE) {
        this.string();
        continue;
      }
      if (char === OBJECT || char === LIST) open += 1;
      if (char === OBJECT_END || char === LIST_END) open -= 1;
      this.at += 1;
    } while (open > 0);
  }

  /** Passes a number or a word. */
  private scalar(): void {
    for (;;) {
      const char = this.json.charCodeAt(this.at);
      if (char === COMMA || char === OBJECT_END || char === LIST_END || Number.isNaN(char)) return;
      this.at += 1;
    }
  }

  private here(): number {
    const char = this.json.charCodeAt(this.at);
    if (Number.isNaN(char)) throw damagedText('is not JSON');
    return char;
  }
}

/** Whether an item ends a group: FNV-1a of its text. */
function isBorder(item: string): boolean {
  let sum = 0x811c9dc5;
  for (let at = 0; at < item.length; at += 1)
    sum = Math.imul(sum ^ item.charCodeAt(at), 0x01000193);
  return ((sum ^ (sum >>> 15)) & BORDER) === 0;
}
