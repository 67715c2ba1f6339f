import { type JsonBudget, jsonBudgets } from './limits.ts';

/** The bound that a text of JSON is over. */
export class JsonExcess extends Error {
  readonly bound: keyof JsonBudget;
  readonly most: number;

  constructor(bound: keyof JsonBudget, budget: JsonBudget) {
    const most = budget[bound] ?? budget.values;
    super(`more than ${most} ${bound}`);
    this.bound = bound;
    this.most = most;
  }
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const ZERO = 0x30;
const NINE = 0x39;
const SQUARE = 0x5b;
const CURLY = 0x7b;
const SQUARE_END = 0x5d;
const CURLY_END = 0x7d;

/**
 * Measures one text of JSON before anything parses it: a value costs far more memory and time than
 * its text. It reads each byte once, and the text may come in pieces.
 *
 * 1. Each comma and each bracket outside a string is a value.
 * 2. A number that a comma follows in a list counts as a number alone, if the budget has a place
 *    for those. A vector costs little more than its text.
 */
export class JsonMeter {
  private readonly budget: JsonBudget;
  /** By level: whether it is a list. */
  private readonly lists: Uint8Array;
  private depth = 0;
  /** The values so far. */
  values = 1;
  private numbers = 0;
  private bytes = 0;
  private quoted = false;
  private escaped = false;
  private last = 0;

  constructor(budget: JsonBudget) {
    this.budget = budget;
    this.lists = new Uint8Array(budget.levels + 1);
  }

  /** Whether no object, list or string is open. */
  get isClosed(): boolean {
    return this.depth === 0 && !this.quoted;
  }

  /** Begins with another text. */
  reset(): void {
    this.depth = 0;
    this.values = 1;
    this.numbers = 0;
    this.bytes = 0;
    this.endLine();
  }

  /** Ends an open string: no string of JSON spans two lines. */
  endLine(): void {
    this.quoted = false;
    this.escaped = false;
    this.last = 0;
  }

  /** The bound that the text is over with this piece. Null: none. */
  take(bytes: Uint8Array): JsonExcess | null {
    const { lists } = this;
    const { levels, values: valuesMax, numbers: numbersMax } = this.budget;
    let { depth, values, numbers, quoted, last } = this;
    this.bytes += bytes.length;
    if (this.bytes > (this.budget.bytes ?? this.bytes)) return new JsonExcess('bytes', this.budget);
    let at = this.escaped ? 1 : 0;
    let leapAt = LEAP;
    for (; at < bytes.length; at += 1) {
      const code = bytes[at] as number;
      if (quoted) {
        if (code === QUOTE) quoted = false;
        else if (code === BACKSLASH) at += 1;
        else if (at >= leapAt) {
          at = leap(bytes, at);
          leapAt = at + LEAP;
        }
      } else if (code === QUOTE) {
        quoted = true;
        leapAt = at + LEAP;
      } else if (code === COMMA) {
        const before = at === 0 ? last : (bytes[at - 1] as number);
        const isNumber = before >= ZERO && before <= NINE && lists[depth] === 1;
        if (isNumber && numbersMax !== undefined) {
          numbers += 1;
          if (numbers > numbersMax) return new JsonExcess('numbers', this.budget);
        } else {
          values += 1;
          if (values > valuesMax) return new JsonExcess('values', this.budget);
        }
      } else if (code === SQUARE || code === CURLY) {
        depth += 1;
        values += 1;
        if (depth > levels) return new JsonExcess('levels', this.budget);
        if (values > valuesMax) return new JsonExcess('values', this.budget);
        lists[depth] = code === SQUARE ? 1 : 0;
      } else if ((code === SQUARE_END || code === CURLY_END) && depth > 0) depth -= 1;
    }
    if (bytes.length > 0) last = quoted ? 0 : (bytes.at(-1) as number);
    Object.assign(this, { depth, values, numbers, quoted, last, escaped: at > bytes.length });
    return null;
  }
}

/** Bytes of a string that are read one by one. A search costs as much. */
const LEAP = 128;

/** From inside a string to just before its end or an escape, or the end of the bytes. */
function leap(bytes: Uint8Array, from: number): number {
  const quote = Buffer.prototype.indexOf.call(bytes, QUOTE, from);
  const end = quote < 0 ? bytes.length : quote;
  let escapes = 0;
  while (end - 1 - escapes > from && bytes[end - 1 - escapes] === BACKSLASH) escapes += 1;
  return end - 1 - escapes;
}

/** The bound that a text of JSON is over. Null: none. */
export function excessOf(json: string | Uint8Array, budget: JsonBudget): JsonExcess | null {
  return new JsonMeter(budget).take(typeof json === 'string' ? Buffer.from(json) : json);
}

/**
 * Reads a text of JSON of the other side: all foreign JSON comes through here. Undefined: it is not
 * JSON. Throws JsonExcess.
 */
export function readForeignJson(text: string, budget: JsonBudget): unknown {
  const excess = excessOf(text, budget);
  if (excess !== null) throw excess;
  return parseOrUndefined(text);
}

function parseOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * Reads a body of JSON. It is measured as it comes, so that a bound ends it early, and one turn of
 * the event loop measures one piece. One meter may measure several bodies together. Undefined: it
 * is no JSON. Throws JsonExcess.
 */
export async function readJsonBody(
  body: AsyncIterable<Uint8Array> | null,
  meter: JsonMeter,
): Promise<unknown> {
  const pieces: Uint8Array[] = [];
  for await (const piece of body ?? []) {
    const excess = meter.take(piece);
    if (excess !== null) throw excess;
    pieces.push(piece);
  }
  return parseOrUndefined(new TextDecoder().decode(Buffer.concat(pieces)));
}

/** As `readForeignJson`. Undefined: there is no text, it is not JSON, or it is over its budget. */
export function parseForeignJson(
  text: string | null,
  budget: JsonBudget = jsonBudgets.foreign,
): unknown {
  if (text === null) return undefined;
  try {
    return readForeignJson(text, budget);
  } catch {
    return undefined;
  }
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

/** The value if it is an object, else an empty one. */
export function asRecord(value: unknown): Record<string, unknown> {
  return isRecord(value) ? value : {};
}

/** The key that Anthropic's documents give to arguments that are no JSON. */
const INVALID = 'INVALID_JSON';

/**
 * The arguments of a call as an object, which some APIs need. Other arguments are there as the
 * model wrote them, under a key of their own: they must not look valid.
 */
export function argumentsObject(written: string): Record<string, unknown> {
  if (written.trim() === '') return {};
  return asObject(parseForeignJson(written)) ?? { [INVALID]: written };
}

/** Null: the value is not an object. */
export function asObject(value: unknown): Record<string, unknown> | null {
  return isRecord(value) && !Array.isArray(value) ? value : null;
}
