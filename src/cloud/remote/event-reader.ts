import type { SvcError } from '../../errors.ts';
import { parseForeignJson } from '../../json.ts';
import type { Limits } from '../../limits.ts';
import { tooLarge } from './failure.ts';

/**
 * Splits the bytes of a response into the data of its server-sent events. It owns the event that
 * has not ended yet.
 *
 * 1. A line ends with LF, CR LF or CR, wherever the reads cut it. Fields other than data are left
 *    out.
 * 2. An event and the whole response have bounds, also before they have ended.
 * 3. A response that begins like a page or a JSON document has no events: `document` has its text.
 * 4. The bytes are searched once for each end of a line, and text is only made of the data.
 * 5. Some servers put no empty line between their events. Whole JSON that another JSON object
 *    follows is a whole event, because both together are not JSON.
 * 6. Some append the JSON of an error to their events: `stray` has its text.
 */
export class EventReader {
  private readonly limits: Pick<Limits, 'provider_event_bytes' | 'provider_stream_bytes'>;
  private form: 'unknown' | 'events' | 'document' = 'unknown';
  /** The line that has not ended yet, or the document. */
  private rest: Buffer[] = [];
  private restBytes = 0;
  /** Data of the present event. Null: it has none. */
  private data: string | null = null;
  /** The present event has several lines of data. */
  private isJoined = false;
  /** Bytes of the present event. */
  private size = 0;
  /** Text after the events that is not an event. */
  stray = '';
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

  /** The text of a response that is not a stream. Null: it is a stream. Throws stream_oversized. */
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

  /** Call at the end of the response. Returns the data that no empty line follows, or null. */
  end(): string | null {
    if (this.form === 'events' && this.restBytes > 0) {
      const line = Buffer.concat(this.rest, this.restBytes);
      this.rest = [];
      this.restBytes = 0;
      this.field(line, 0, line.length, () => undefined);
    }
    return this.data;
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
      this.field(whole, 0, whole.length, take);
    } else if (to > from) this.field(bytes, from, to, take);
    else {
      const { data } = this;
      this.data = null;
      this.isJoined = false;
      this.size = 0;
      if (data !== null) take(data);
    }
  }

  private field(line: Buffer, from: number, to: number, take: (data: string) => void): void {
    this.size += to - from + 1;
    if (this.size > this.limits.provider_event_bytes)
      throw tooLarge('one event', this.limits.provider_event_bytes);
    const start = this.isFirst && line.readUInt8(from) === BOM[0] ? from + BOM.length : from;
    this.isFirst = false;
    const end = start + DATA.length;
    if (!isData(line, start)) this.other(line, start, to);
    else if (end >= to || line[end] === COLON) {
      const value = line.toString('utf8', line[end + 1] === SPACE ? end + 2 : end + 1, to);
      if (this.data === null) this.data = value;
      else this.join(this.data, value, take);
    }
  }

  private join(before: string, value: string, take: (data: string) => void): void {
    if (!this.isJoined && beginsEvent(value) && parseForeignJson(before) !== undefined) {
      take(before);
      this.data = value;
      this.size = value.length;
    } else {
      this.isJoined = true;
      this.data = `${before}\n${value}`;
    }
  }

  private other(line: Buffer, from: number, to: number): void {
    if (this.stray === '' && line[from] !== CURLY) return;
    if (this.stray.length + to - from > STRAY_MAX) this.stray = '';
    else this.stray += line.toString('utf8', from, to);
  }
}

function isData(line: Buffer, start: number): boolean {
  for (let at = 0; at < DATA.length; at += 1) if (line[start + at] !== DATA[at]) return false;
  return true;
}

/** A longer text is not an error. */
const STRAY_MAX = 16 * 1024;

/** Whether no JSON in several lines has this one after a whole value. */
function beginsEvent(value: string): boolean {
  return value.startsWith('{') || value.trim() === '[DONE]';
}

const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const COLON = 0x3a;
const CURLY = 0x7b;
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
