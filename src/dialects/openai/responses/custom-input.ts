import { asRecord, parseForeignJson } from '../../../json.ts';

/**
 * A custom tool takes free text. The model calls it as a function with one text. This reads that
 * text out of the arguments while they are written.
 *
 * A model may write the text itself instead of JSON. Then the arguments are the text.
 */
export const customArguments = {
  schema: {
    type: 'object',
    properties: { input: { type: 'string', description: 'The whole input, as plain text.' } },
    required: ['input'],
    additionalProperties: false,
  },
  of: (input: string) => JSON.stringify({ input }),
} as const;

/** The input of whole arguments. */
export function inputOf(written: string): string {
  const reader = new InputReader();
  return reader.add(written) + reader.end();
}

const BEGIN = '{"input":"';

export class InputReader {
  /** `begin`: before the text. `raw`: the arguments are the text. `other`: only the end decides. */
  private state: 'begin' | 'text' | 'raw' | 'other' | 'over' = 'begin';
  /** Characters that are not read yet: the beginning, or an incomplete escape. */
  private rest = '';

  /** The input in one more piece of the arguments. */
  add(piece: string): string {
    if (this.state === 'over') return '';
    this.rest += piece;
    if (this.state === 'begin') this.begin();
    if (this.state === 'text') return this.read();
    return this.state === 'raw' ? this.take() : '';
  }

  /** The rest, once the arguments are whole. */
  end(): string {
    const { state } = this;
    this.state = 'over';
    const written = this.take();
    if (state === 'over' || state === 'raw') return state === 'raw' ? written : '';
    // The input ends inside the text, or has an escape that JSON does not know.
    if (state === 'text') return written.replace(/"\s*\}?\s*$/, '');
    const { input } = asRecord(parseForeignJson(written));
    // The input is not JSON, so it is the text.
    return typeof input === 'string' ? input : written;
  }

  private take(): string {
    const { rest } = this;
    this.rest = '';
    return rest;
  }

  private begin(): void {
    let at = 0;
    for (let found = 0; found < BEGIN.length; at += 1) {
      const sign = this.rest[at];
      if (sign === undefined) return;
      if (sign === BEGIN[found]) found += 1;
      else if (!/\s/.test(sign)) {
        this.state = found === 0 ? 'raw' : 'other';
        return;
      }
    }
    this.rest = this.rest.slice(at);
    this.state = 'text';
  }

  private read(): string {
    let [read, at] = ['', 0];
    for (;;) {
      PART.lastIndex = at;
      const part = PART.exec(this.rest)?.[0];
      if (part === undefined) break;
      at += part.length;
      read += part.startsWith('\\') ? JSON.parse(`"${part}"`) : part;
    }
    if (this.rest[at] === '"') this.state = 'over';
    this.rest = this.rest.slice(at);
    return read;
  }
}

/** Plain text, or one escape. Two halves of a character are one. */
const HALVES = /\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}/;
const UNIT = /\\u(?![dD][89abAB])[0-9a-fA-F]{4}/;
const PART = new RegExp(`[^"\\\\]+|${HALVES.source}|${UNIT.source}|\\\\["\\\\/bfnrt]`, 'y');
