import { createHash } from 'node:crypto';
import { hasCode, SvcError } from '../../../errors.ts';
import { IMPORT_LINE_BYTES_MAX } from '../../../limits.ts';
import { chain, GENESIS } from '../continuity.ts';
import type { EmbeddingUsage } from '../embedding-usage.ts';
import { CONFLICT, type RunRow, type StoredEvent } from '../port.ts';
import { type EventRow, fromEventRow } from '../row.ts';
import { hasReferences } from '../texts.ts';
import { type Header, type Line, readHeader, readLine } from './format.ts';
import type { LogTarget, UsageRow } from './port.ts';

/** Folds the rows of runs while their events pass by. */
export interface RowFolder {
  /** The row of a run that ended with this event; else null. */
  next(event: StoredEvent): RunRow | null;
  /** The rows of the runs that have not ended, at the end of the log. */
  unfinished(): RunRow[];
}

export interface ImportOptions {
  target: LogTarget;
  folder: RowFolder;
  /** Hears how many events were read, and how many there are. */
  onProgress?: (events: number, of: number) => void;
}

export interface ImportResult {
  events: number;
  runs: number;
  last_seq: number;
}

/**
 * Reads a log from its file into an empty store. Throws import_invalid, and what the store throws;
 * then the store is as it was.
 */
export async function importLog(
  file: AsyncIterable<Uint8Array>,
  options: ImportOptions,
): Promise<ImportResult> {
  const lines = linesOf(file);
  const first = await lines.next();
  if (first.done === true) throw new SvcError('import_invalid', 'The file is empty.');
  const work = new Import(readHeader(first.value.text), options);
  let number = 1;
  for await (const { bytes, text } of lines) {
    number += 1;
    await work.take(text, bytes, number);
  }
  return work.finish();
}

/** A batch is one statement of the database, or a part of its transaction. */
const [BATCH_EVENTS, BATCH_CHARS] = [2000, 2 * 1024 * 1024];

/**
 * One import. It owns what waits for the next batch.
 *
 * 1. Each event continues the chain of the file, and the versions of its stream.
 * 2. The rows of runs are folded from the events, as the daemon does it. The file has only records
 *    that no event has.
 * 3. Only a file with its end, and with the digest of that end, is finished.
 */
class Import {
  private readonly options: ImportOptions;
  private readonly header: Header;
  private readonly digest = createHash('sha256');
  private events: EventRow[] = [];
  private texts: string[] = [];
  private rows: RunRow[] = [];
  private chars = 0;
  private textChars = 0;
  private usage: UsageRow[] = [];
  private embeddings: EmbeddingUsage[] = [];
  private seq = 0;
  private hash = GENESIS;
  private count = 0;
  private runs = 0;
  private isEnded = false;

  constructor(header: Header, options: ImportOptions) {
    this.header = header;
    this.options = options;
  }

  async take(text: string, bytes: Uint8Array, number: number): Promise<void> {
    if (this.isEnded) throw changedFileError(number, 'comes after the end');
    const line = readLine(text);
    if (line === null) throw changedFileError(number, 'cannot be read');
    if (line.kind !== 'end') this.digest.update(bytes);
    await this.add(line, number);
  }

  async finish(): Promise<ImportResult> {
    const { target, folder } = this.options;
    if (!this.isEnded)
      throw new SvcError(
        'import_invalid',
        `The file is cut off: it has ${this.count} of ${this.header.events} events, and no end.`,
      );
    for (const row of folder.unfinished()) {
      this.rows.push(row);
      this.runs += 1;
      if (this.rows.length >= BATCH_EVENTS) await this.flush();
    }
    await this.flush();
    await target.usage(this.usage);
    await target.embeddings(this.embeddings);
    await target.finish();
    return { events: this.count, runs: this.runs, last_seq: this.seq };
  }

  private async add(line: Line, number: number): Promise<void> {
    const { target } = this.options;
    switch (line.kind) {
      case 'event':
        return this.addEvent(line.row, line.hash, number);
      case 'text':
        this.texts.push(line.text);
        this.textChars += line.text.length;
        if (this.textChars >= BATCH_CHARS) await this.addTexts();
        return;
      case 'record': {
        const row = this.rows.at(-1);
        if (row?.run_id !== line.run_id || row.seq !== this.seq)
          throw changedFileError(number, 'does not follow the end of its run');
        row.record = line.record;
        return;
      }
      case 'usage':
        this.usage.push(line.row);
        if (this.usage.length >= BATCH_EVENTS) await target.usage(this.usage.splice(0));
        return;
      case 'embeddings':
        this.embeddings.push(line.row);
        if (this.embeddings.length >= BATCH_EVENTS)
          await target.embeddings(this.embeddings.splice(0));
        return;
      case 'end': {
        const { events, last_seq, digest } = line.end;
        if (events !== this.count || last_seq !== this.seq || events !== this.header.events)
          throw changedFileError(
            number,
            `is the end of ${events} events, but ${this.count} came before it`,
          );
        if (digest !== this.digest.digest('hex'))
          throw changedFileError(number, 'has another digest than the lines before it');
        this.isEnded = true;
      }
    }
  }

  private async addEvent(row: EventRow, hash: string, number: number): Promise<void> {
    if (row.seq <= this.seq) throw changedFileError(number, `repeats the event ${row.seq}`);
    if (chain(this.hash, row) !== hash)
      throw changedFileError(
        number,
        `has the event ${row.seq}, which does not agree with its hash`,
      );
    const isGap = row.seq !== this.seq + 1;
    if (isGap || this.events.length >= BATCH_EVENTS || this.chars >= BATCH_CHARS)
      await this.flush();
    if (isGap) await this.options.target.skip(row.seq - 1);
    await this.addTexts();
    const data = await this.expand(row.data, number);
    this.events.push(row);
    this.chars += data.length;
    this.seq = row.seq;
    this.hash = hash;
    this.count += 1;
    const folded = this.options.folder.next(fromEventRow({ ...row, data }));
    if (folded === null) return;
    this.rows.push(folded);
    this.runs += 1;
    // The record of a run repeats the text of its events.
    this.chars += charsOf(folded);
  }

  private async addTexts(): Promise<void> {
    if (this.texts.length === 0) return;
    try {
      await this.options.target.texts(this.texts);
    } catch (error) {
      throw asImportError(error);
    }
    [this.texts, this.textChars] = [[], 0];
  }

  private async expand(data: string, number: number): Promise<string> {
    try {
      return hasReferences(data) ? await this.options.target.expand(data) : data;
    } catch (error) {
      if (!hasCode(error, 'store_corrupt')) throw error;
      throw changedFileError(number, 'needs a text that does not come before it');
    }
  }

  private async flush(): Promise<void> {
    if (this.events.length === 0 && this.rows.length === 0) return;
    try {
      await this.options.target.append(this.events, this.rows);
    } catch (error) {
      throw asImportError(error);
    }
    this.events = [];
    this.rows = [];
    this.chars = 0;
    this.options.onProgress?.(this.count, this.header.events);
  }
}

function asImportError(error: unknown): unknown {
  if ((error as { code?: unknown }).code !== CONFLICT) return error;
  return new SvcError(
    'import_invalid',
    `The log of the file is wrong. ${(error as Error).message}`,
  );
}

/** About the size of a row. */
function charsOf({ record }: RunRow): number {
  return [record?.prompt, record?.output].reduce<number>(
    (sum, text) => sum + (typeof text === 'string' ? text.length : 0),
    0,
  );
}

function changedFileError(number: number, what: string): SvcError {
  return new SvcError('import_invalid', `The file was changed: line ${number} ${what}.`);
}

interface FileLine {
  /** With its line break, as the digest covers it. */
  bytes: Uint8Array;
  /** Without it. */
  text: string;
}

const LINE_FEED = 0x0a;

/** The lines of a file. Throws import_invalid: a line is too long, cut off, or not UTF-8. */
async function* linesOf(file: AsyncIterable<Uint8Array>): AsyncGenerator<FileLine> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  let parts: Uint8Array[] = [];
  let size = 0;
  const add = (part: Uint8Array) => {
    parts.push(part);
    size += part.length;
    if (size > IMPORT_LINE_BYTES_MAX)
      throw new SvcError('import_invalid', `A line has more than ${IMPORT_LINE_BYTES_MAX} bytes.`);
  };
  for await (const chunk of file) {
    let from = 0;
    for (let at = chunk.indexOf(LINE_FEED); at >= 0; at = chunk.indexOf(LINE_FEED, from)) {
      add(chunk.subarray(from, at + 1));
      const bytes = parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts);
      yield { bytes, text: decode(decoder, bytes.subarray(0, -1)) };
      [parts, size, from] = [[], 0, at + 1];
    }
    if (from < chunk.length) add(chunk.subarray(from));
  }
  if (size > 0)
    throw new SvcError('import_invalid', 'The file is cut off: its last line has no end.');
}

function decode(decoder: InstanceType<typeof TextDecoder>, bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch (cause) {
    throw new SvcError('import_invalid', 'The file was changed: a line is not UTF-8 text.', {
      cause,
    });
  }
}
