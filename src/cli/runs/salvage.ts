import { asSvcError } from '../../errors.ts';
import type { StoredEvent } from '../../store/port.ts';
import type { OpenLog } from './open-log.ts';

const PAGE = 500;
/** Errors of a damaged log; any other error ends the export. */
const DAMAGE = new Set(['store_corrupt', 'store_failed']);

/** Every readable event of the log, in order. Reports the positions of unreadable ones. */
export async function* salvage(
  log: Pick<OpenLog, 'last_seq' | 'readAll'>,
  report: (problem: string) => void,
): AsyncIterable<StoredEvent> {
  let lost = null as { from: number; to: number } | null;
  for (let next = 1; next <= log.last_seq; ) {
    const page = await readOrNull(log, next);
    if (page === null) {
      lost = { from: lost?.from ?? next, to: next };
      next += 1;
      continue;
    }
    if (lost !== null) report(sentence(lost));
    lost = null;
    if (page.length === 0) break;
    for (const event of page) if (event.seq <= log.last_seq) yield event;
    next = (page.at(-1)?.seq ?? next) + 1;
  }
  if (lost !== null) report(sentence(lost));
}

/** A page, or its readable beginning; null if the first event is unreadable. */
async function readOrNull(
  log: Pick<OpenLog, 'readAll'>,
  from_seq: number,
): Promise<StoredEvent[] | null> {
  for (const limit of [PAGE, 16, 1]) {
    try {
      return await log.readAll(from_seq, limit);
    } catch (error) {
      if (!DAMAGE.has(asSvcError(error).code)) throw error;
    }
  }
  return null;
}

function sentence({ from, to }: { from: number; to: number }): string {
  return from === to
    ? `The event ${from} cannot be read.`
    : `The events ${from} to ${to} cannot be read.`;
}
