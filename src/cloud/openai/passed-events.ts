import { isRecord } from '../../json.ts';
import { KeyFilter } from '../remote/echoed-key.ts';
import { readJson, tooLarge } from '../remote/failure.ts';

/**
 * Removes a key that comes in pieces from the events of an answer that is passed on. An event is
 * passed on unchanged, unless it has a part of the key.
 *
 * 1. The texts of one place, such as `delta`, are one text over all events.
 * 2. Text that may begin the key is passed on with the next text of its place, or in a copy of its
 *    event.
 */
export async function* withoutSplitKey(
  body: AsyncIterable<Uint8Array>,
  key: string | null,
  eventMax: number,
): AsyncIterable<Uint8Array> {
  if (KeyFilter.of(key) === null) return yield* body;
  const texts = new Map<string, Place>();
  let rest = NOTHING;
  let more: Uint8Array[] = [];
  let size = 0;
  for await (const bytes of body) {
    more.push(bytes);
    size += bytes.length;
    const last = Buffer.concat([rest.subarray(-OVERLAP), bytes]);
    if (size > eventMax) throw tooLarge('one event', eventMax);
    if (!EVENT_END.test(last.toString('latin1'))) {
      rest = last;
      continue;
    }
    const whole = Buffer.concat(more);
    let from = 0;
    for (const { index, 0: end } of whole.toString('latin1').matchAll(EVENT_ENDS)) {
      yield* filterEvent(whole.subarray(from, index + end.length), texts, key);
      from = index + end.length;
    }
    rest = whole.subarray(from);
    more = [rest];
    size = rest.length;
  }
  if (size > 0) yield* filterEvent(Buffer.concat(more), texts, key);
  for (const place of texts.values()) yield* place.left();
}

const EVENT_END = /\r\n\r\n|\n\n|\r\r/;
const EVENT_ENDS = new RegExp(EVENT_END, 'g');
/** As many bytes of an end may have come before. */
const OVERLAP = 3;
const NOTHING = Buffer.alloc(0);

/** The texts of one field. */
class Place {
  private readonly filter: KeyFilter;
  /** Makes the last event again, with this text alone. */
  again: (text: string) => Buffer = () => NOTHING;

  constructor(filter: KeyFilter) {
    this.filter = filter;
  }

  take(text: string): string {
    return this.filter.take(text);
  }

  *left(): Iterable<Buffer> {
    const text = this.filter.end();
    if (text !== '') yield this.again(text);
  }
}

function* filterEvent(
  came: Buffer,
  texts: Map<string, Place>,
  key: string | null,
): Iterable<Buffer> {
  const lines = came.toString('utf8').split(/\r\n|\n|\r/);
  const data = lines.filter((line) => line.startsWith('data:')).map((line) => line.slice(5));
  const value = data.length === 0 ? undefined : readJson(data.join('\n'), 'one event');
  if (!isRecord(value)) return yield came;
  const others = lines.filter((line) => line !== '' && !line.startsWith('data:'));
  const write = (changed: unknown) =>
    Buffer.from([...others, `data: ${JSON.stringify(changed)}`, '', ''].join('\n'));
  const seen = new Set<string>();
  let isChanged = false;
  const filtered = mapTexts(value, '', (text, path) => {
    seen.add(path);
    const place = texts.get(path) ?? new Place(KeyFilter.of(key) as KeyFilter);
    if (texts.size < PLACES_MAX) texts.set(path, place);
    place.again = (left) => write(mapTexts(value, '', (_, other) => (other === path ? left : '')));
    const piece = place.take(text);
    isChanged ||= piece !== text;
    return piece;
  });
  for (const [path, place] of texts) if (!seen.has(path)) yield* place.left();
  yield isChanged ? write(filtered) : came;
}

/** Real events have one or two. */
const PLACES_MAX = 64;

/** The value with other texts at the fields that have pieces of a text. */
function mapTexts(
  value: unknown,
  path: string,
  change: (text: string, path: string) => string,
): unknown {
  if (Array.isArray(value)) return value.map((each, at) => mapTexts(each, `${path}.${at}`, change));
  if (!isRecord(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => {
      const place = `${path}.${name}`;
      const isPiece = typeof each === 'string' && PIECES.has(name);
      return [name, isPiece ? change(each, place) : mapTexts(each, place, change)];
    }),
  );
}

const PIECES: ReadonlySet<string> = new Set(['delta', 'text', 'content']);
