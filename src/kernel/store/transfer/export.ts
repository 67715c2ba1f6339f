import { createHash } from 'node:crypto';
import { SvcError } from '../../../errors.ts';
import { chain, GENESIS } from '../continuity.ts';
import type { EventRow } from '../row.ts';
import { hasReferences, referencesIn } from '../texts.ts';
import { eventLine, FIRST_VERSION, FORMAT, FORMAT_VERSION, otherLine } from './format.ts';
import type { LogSource } from './port.ts';

export interface ExportOptions {
  /** The version of svc that writes the file. */
  program: string;
  now: number;
  /** Hears how many events were read. */
  onProgress?: (events: number) => void;
}

/**
 * The text of a whole log, piece by piece. A piece has about one page of the store. Throws
 * store_corrupt: a log that is damaged has no end line.
 */
export async function* exportLog(
  source: LogSource,
  { program, now, onProgress = () => {} }: ExportOptions,
): AsyncIterable<string> {
  const { writers: _, has_texts, ...head } = source.head;
  const exported_at = new Date(now).toISOString();
  yield otherLine({
    format: FORMAT,
    format_version: has_texts ? FORMAT_VERSION : FIRST_VERSION,
    program,
    exported_at,
    ...head,
  });
  const digest = createHash('sha256');
  const digested = (text: string) => {
    digest.update(text);
    return text;
  };
  let [seq, events, hash] = [0, 0, GENESIS];
  /** Runs in progress whose output is not in their events. */
  const textless = new Set<string>();
  const written = new Set<string>();
  for (;;) {
    const page = await source.page(seq + 1);
    if (page.length === 0) break;
    let piece = '';
    for (const row of page) {
      hash = chain(hash, row);
      piece += await textLines(source, row.data, written);
      piece += eventLine(row, hash);
      if (piece.length > PIECE_CHARS) {
        yield digested(piece);
        piece = '';
      }
      seq = row.seq;
      if (lacksText(row)) textless.add(row.stream);
      else if (textless.has(row.stream)) {
        const record = await source.record(row.stream, row.seq);
        if (record === null) continue;
        piece += otherLine({ run_id: row.stream, record });
        textless.delete(row.stream);
      }
    }
    events += page.length;
    yield digested(piece);
    onProgress(events);
  }
  if (events !== head.events || seq !== head.last_seq)
    throw new SvcError(
      'store_corrupt',
      `The log should have ${head.events} events up to ${head.last_seq}. ` +
        `It has ${events} up to ${seq}.`,
    );
  for await (const rows of source.usage())
    yield digested(rows.map((usage) => otherLine({ usage: withoutNulls(usage) })).join(''));
  for await (const rows of source.embeddings())
    yield digested(rows.map((embeddings) => otherLine({ embeddings })).join(''));
  yield otherLine({ end: { events, last_seq: seq, digest: digest.digest('hex') } });
}

/** The texts that these data need and that have no line yet, each after those that it needs. */
async function textLines(source: LogSource, data: string, written: Set<string>): Promise<string> {
  if (!hasReferences(data)) return '';
  const digests = referencesIn(data).filter((digest) => !written.has(digest));
  const texts = digests.length === 0 ? [] : await source.texts(digests);
  let lines = '';
  for (const [index, text] of texts.entries()) {
    const digest = digests[index] ?? '';
    if (written.has(digest)) continue;
    lines += (await textLines(source, text, written)) + otherLine({ text });
    written.add(digest);
  }
  return lines;
}

const PIECE_CHARS = 1024 * 1024;

function withoutNulls<T extends object>(row: T): T {
  return Object.fromEntries(Object.entries(row).filter(([, value]) => value !== null)) as T;
}

/** Its text was shown and not stored. Only the record of its run may have it. */
function lacksText({ type, data }: EventRow): boolean {
  return type === 'run.output_appended' && data.includes('"chars":');
}
