import type { SvcError } from '../../errors.ts';
import type { Limits } from '../../limits.ts';
import { tooLarge } from '../remote/failure.ts';

/**
 * Splits the bytes of a response into the data of its server-sent events. It owns the event that
 * has not ended yet.
 *
 * 1. A line ends with LF, CR LF or CR, wherever the reads cut it. Fields other than data are left
 *    out.
 * 2. An event and the whole response have bounds, also before they have ended.
 * 3. A response that begins like a page or a JSON document has no events: `document` has its text.
 * 4. The bytes are searched once for each end of a line, and text is only made of the data.
 */
export class EventReader {
  private readonly limits: Pick<Limits, 'provider_event_bytes' | 'provider_stream_bytes'>;
  private form: 'unknown' | 'events' | 'document' = 'unknown';
  /** The line that has not ended yet, or the document. */
  private rest: Buffer[] = [];
  private restBytes = 0;
  /** Data of the present event. Null: it has none. */
  private data: string | null = null;
  /** Bytes of the present event. */
  private size = 0;
  private total = 0;
  private isFirst = true;
  private afterCr = false;

  private readonly noEvents: () => SvcError;

  /** `noEvents`: the failure of a document that is larger than an event may be. */
  constructor(
    limits: Pick<Limits, 'provider_event_bytes' | 'provider_stream_bytes'>,
    noEvents: () => SvcError,
  ) {
    this.limits = limits;
    this.noEvents = noEvents;
  }

  /** The text of a response that is no stream. Null: it is one. Throws stream_oversized. */
  get document(): string | null {
    return this.form === 'document' ? Buffer.concat(this.rest, this.restBytes).toString() : null;
  }

  /** Hands over the data of each event that ends here. Throws stream_oversized after those. */
  push(bytes: Buffer, take: (data: string) => void): void {
    const { provider_event_bytes: eventMax, provider_stream_bytes: streamMax } = this.limits;
    this.total += bytes.length;
    if (this.total > streamMax) throw tooLarge('an answer', streamMax);
    if (this.form === 'unknown') this.form = formOf(bytes);
    const from = this.form === 'document' ? 0 : this.lines(bytes, take);
    if (from < bytes.length) {
      this.rest.push(bytes.subarray(from));
      this.restBytes += bytes.length - from;
    }
    if (this.size + this.restBytes <= eventMax) return;
    throw this.form === 'document' ? this.noEvents() : tooLarge('one event', eventMax);
  }

  /** Takes all lines that end in these bytes. Returns where the last one ends. */
  private lines(bytes: Buffer, take: (data: string) => void): number {
    let from = 0;
    let [cr, lf] = [bytes.indexOf(CR), bytes.indexOf(LF)];
    while (cr >= 0 || lf >= 0) {
      const isLf = cr < 0 || (lf >= 0 && lf < cr);
      const at = isLf ? lf : cr;
      const isRest = isLf && this.afterCr && at === from && this.restBytes === 0;
      this.afterCr = !isLf;
      if (!isRest) this.line(bytes, from, at, take);
      from = at + 1;
      if (isLf) lf = bytes.indexOf(LF, from);
      else cr = bytes.indexOf(CR, from);
    }
    return from;
  }

  private line(bytes: Buffer, from: number, to: number, take: (data: string) => void): void {
    if (this.restBytes > 0) {
      const whole = Buffer.concat([...this.rest, bytes.subarray(from, to)]);
      this.rest = [];
      this.restBytes = 0;
      this.field(whole, 0, whole.length);
    } else if (to > from) this.field(bytes, from, to);
    else {
      const { data } = this;
      this.data = null;
      this.size = 0;
      if (data !== null) take(data);
    }
  }

  private field(line: Buffer, from: number, to: number): void {
    this.size += to - from + 1;
    if (this.size > this.limits.provider_event_bytes)
      throw tooLarge('one event', this.limits.provider_event_bytes);
    const start = this.isFirst && line.readUInt8(from) === BOM[0] ? from + BOM.length : from;
    this.isFirst = false;
    for (let at = 0; at < DATA.length; at += 1) if (line[start + at] !== DATA[at]) return;
    const end = start + DATA.length;
    if (end < to && line[end] !== COLON) return;
    const value = line.toString('utf8', line[end + 1] === SPACE ? end + 2 : end + 1, to);
    this.data = this.data === null ? value : `${this.data}\n${value}`;
  }
}

const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const COLON = 0x3a;
const DATA = Buffer.from('data');
const BOM = Buffer.from('\uFEFF');
const BLANK = new Set([LF, CR, SPACE, 0x09, ...BOM]);
/** `{`, `[` and `<` begin no line of an event. */
const DOCUMENT = new Set([0x7b, 0x5b, 0x3c]);

function formOf(bytes: Buffer): 'unknown' | 'events' | 'document' {
  const first = bytes.find((byte) => !BLANK.has(byte));
  if (first === undefined) return 'unknown';
  return DOCUMENT.has(first) ? 'document' : 'events';
}
