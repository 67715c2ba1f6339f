/** Values as a program writes them, as JSON: `'text'`, `True`, `None`, `[1, 2]`, `{key: 1}`. */

/** How texts are quoted, the longest first. The letters of Python have escapes. */
export type Quotes = readonly string[];

export const PYTHON_QUOTES: Quotes = ['"""', "'''", '"', "'"];

/** Deeper values stay texts. */
const DEPTH_MAX = 32;

const WORDS: Readonly<Record<string, string>> = {
  true: 'true',
  True: 'true',
  false: 'false',
  False: 'false',
  null: 'null',
  None: 'null',
};
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?$/;
const ESCAPES: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r', b: '\b', f: '\f' };

/** Anything that is not a value is a text. */
export function jsonOf(text: string, quotes: Quotes): string {
  const said = text.trim();
  const literal = new Literal(said, quotes);
  const value = literal.value(0);
  return value === null || !literal.isRead ? JSON.stringify(said) : value;
}

class Literal {
  private readonly text: string;
  private readonly quotes: Quotes;
  private at = 0;

  constructor(text: string, quotes: Quotes) {
    this.text = text;
    this.quotes = quotes;
  }

  get isRead(): boolean {
    this.skipSpace();
    return this.at === this.text.length;
  }

  /** Null: it is not a value. */
  value(depth: number): string | null {
    this.skipSpace();
    if (depth > DEPTH_MAX) return null;
    const quoted = this.readQuoted();
    if (quoted !== null) return JSON.stringify(quoted);
    const letter = this.text[this.at];
    if (letter === '[') return this.list(']', depth);
    if (letter === '(') return this.list(')', depth);
    return letter === '{' ? this.map(depth) : this.word();
  }

  private list(close: string, depth: number): string | null {
    this.at += 1;
    const items: string[] = [];
    for (;;) {
      if (this.takes(close)) return `[${items.join(', ')}]`;
      const item = this.value(depth + 1);
      if (item === null) return null;
      items.push(item);
      if (!this.takes(',') && !this.isNext(close)) return null;
    }
  }

  private map(depth: number): string | null {
    this.at += 1;
    const pairs: string[] = [];
    for (;;) {
      if (this.takes('}')) return `{${pairs.join(', ')}}`;
      this.skipSpace();
      const key = this.readQuoted() ?? this.until(/[:,{}[\]]/).trim();
      if (!this.takes(':')) return null;
      const value = this.value(depth + 1);
      if (value === null) return null;
      pairs.push(`${JSON.stringify(key)}: ${value}`);
      if (!this.takes(',') && !this.isNext('}')) return null;
    }
  }

  private word(): string | null {
    const word = this.until(/[,\])}]/).trim();
    if (word === '') return null;
    if (Object.hasOwn(WORDS, word)) return WORDS[word] as string;
    return NUMBER.test(word) ? word : JSON.stringify(word);
  }

  private readQuoted(): string | null {
    const { text } = this;
    const quote = this.quotes.find((each) => text.startsWith(each, this.at));
    if (quote === undefined) return null;
    const hasEscapes = PYTHON_QUOTES.includes(quote);
    let at = this.at + quote.length;
    let value = '';
    while (at < text.length && !text.startsWith(quote, at)) {
      if (hasEscapes && text[at] === '\\') {
        const { letter, length } = escapeAt(text, at);
        value += letter;
        at += length;
      } else {
        value += text[at];
        at += 1;
      }
    }
    if (at >= text.length) return null;
    this.at = at + quote.length;
    return value;
  }

  private until(end: RegExp): string {
    const from = this.at;
    while (this.at < this.text.length && !end.test(this.text[this.at] as string)) this.at += 1;
    return this.text.slice(from, this.at);
  }

  private takes(letter: string): boolean {
    const is = this.isNext(letter);
    if (is) this.at += 1;
    return is;
  }

  private isNext(letter: string): boolean {
    this.skipSpace();
    return this.text[this.at] === letter;
  }

  private skipSpace(): void {
    while (/\s/.test(this.text[this.at] ?? '')) this.at += 1;
  }
}

function escapeAt(text: string, at: number): { letter: string; length: number } {
  const code = /^\\(?:x([\da-fA-F]{2})|u([\da-fA-F]{4}))/.exec(text.slice(at, at + 6));
  if (code !== null)
    return {
      letter: String.fromCharCode(Number.parseInt((code[1] ?? code[2]) as string, 16)),
      length: code[0].length,
    };
  const escaped = text[at + 1] ?? '';
  const letter = ESCAPES[escaped] ?? (/["'\\/]/.test(escaped) ? escaped : `\\${escaped}`);
  return { letter, length: 2 };
}
