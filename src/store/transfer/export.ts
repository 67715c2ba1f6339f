import { createHash } from 'node:crypto';
import { SvcError } from '../../errors.ts';
import { chain, GENESIS } from '../continuity.ts';
import type { EventRow } from '../row.ts';
import { eventLine, FORMAT, FORMAT_VERSION, otherLine } from './format.ts';
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
  const { writers: _, ...head } = source.head;
  const exported_at = new Date(now).toISOString();
  yield otherLine({
    format: FORMAT,
    format_version: FORMAT_VERSION,
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
  for (;;) {
    const page = await source.page(seq + 1);
    if (page.length === 0) break;
    let piece = '';
    for (const row of page) {
      hash = chain(hash, row);
      piece += eventLine(row, hash);
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

function withoutNulls<T extends object>(row: T): T {
  return Object.fromEntries(Object.entries(row).filter(([, value]) => value !== null)) as T;
}

/** Its text was shown and not stored. Only the record of its run may have it. */
function lacksText({ type, data }: EventRow): boolean {
  return type === 'run.output_appended' && data.includes('"chars":');
}
