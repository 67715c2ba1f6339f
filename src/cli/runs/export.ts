import { asSvcError, SvcError } from '../../errors.ts';
import { programVersion } from '../../home/version.ts';
import type { StoredEvent } from '../../kernel/store/port.ts';
import { oneLine } from '../../logs/plain.ts';
import { exportRun } from '../../observability/history/export.ts';
import { redactEvent } from '../../observability/history/redact.ts';
import type { Context } from '../terminal/context.ts';
import { INTERRUPTED, onInterrupt } from '../terminal/interrupt.ts';
import { type OpenLog, withLog } from '../terminal/offline/open-log.ts';
import { textFlag } from '../terminal/parse/flag-values.ts';
import { note } from '../terminal/print/output.ts';
import { type Output, openOutput } from '../terminal/print/output-file.ts';
import { noSuchRun } from './why.ts';

/** Exports one run for replay, or the whole log as JSON lines. Exit 1 if a part is unreadable. */
export async function run({ paths, args, flags }: Context): Promise<number> {
  const [id] = args;
  const all = flags.all === true;
  if (all === (id !== undefined))
    throw new SvcError(
      'usage',
      all
        ? 'Give either the id of a run or --all, not both.'
        : 'Give the id of a run, or --all for the whole log.',
    );
  const file = textFlag(flags, 'output');
  const redact = flags.redact === true;
  const interrupt = onInterrupt();
  const outcome = await withLog(paths, async (log) => {
    const output = openOutput(file);
    try {
      const exit =
        id === undefined
          ? await exportAll(log, output, redact, interrupt.signal)
          : await exportOne(log, id, output, redact);
      await output.close();
      return exit;
    } catch (error) {
      await output.abandon();
      throw error;
    }
  });
  interrupt.release();
  if (file !== undefined && outcome !== INTERRUPTED) note(oneLine(`Written to ${file}.`));
  return outcome;
}

async function exportOne(
  log: OpenLog,
  id: string,
  output: Output,
  redact: boolean,
): Promise<number> {
  let found = false;
  for await (const piece of exportRun(log, await log.findRun(id), {
    redact,
    version: programVersion(),
    now: Date.now(),
  })) {
    found = true;
    await output.write(piece);
  }
  if (!found) throw noSuchRun(id);
  return 0;
}

async function exportAll(
  log: OpenLog,
  output: Output,
  redact: boolean,
  signal: AbortSignal,
): Promise<number> {
  let exit = 0;
  const report = (problem: string) => {
    exit = 1;
    note(oneLine(problem));
  };
  for await (const event of salvage(log, report)) {
    if (signal.aborted) return INTERRUPTED;
    if (output.gone) return 0;
    await output.write(`${JSON.stringify(redact ? redactEvent(event) : event)}\n`);
  }
  for (const problem of await log.problems()) report(problem);
  return exit;
}

const PAGE = 500;
/** Errors of a damaged log; any other error ends the export. */
const DAMAGE = new Set(['store_corrupt', 'store_failed']);

/** Every readable event of the log, in order. Reports the positions of unreadable ones. */
async function* salvage(
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
