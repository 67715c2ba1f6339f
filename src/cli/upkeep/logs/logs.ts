import { anySignal } from '../../../async/signals.ts';
import { hasCode, SvcError } from '../../../errors.ts';
import type { Paths } from '../../../home/paths.ts';
import { readLine } from '../../../logs/filter.ts';
import { createLineFormat } from '../../../logs/format-line.ts';
import { spellUnseen } from '../../../logs/plain.ts';
import { openTail } from '../../../logs/tail.ts';
import { terminalColumns } from '../../../logs/width.ts';
import type { Context } from '../../terminal/context.ts';
import { INTERRUPTED, onInterrupt } from '../../terminal/interrupt.ts';
import { hasColour, isTerminal, note } from '../../terminal/print/output.ts';
import { openStdout, plainStdout, type StdoutStream } from '../../terminal/print/stdout-stream.ts';
import { type LogQuery, readQuery } from './query.ts';

/**
 * The last lines come from the files of the log. With --follow all lines come from the daemon, so
 * that none is lost between the last and the new ones.
 */
export async function run({ paths, flags, json }: Context): Promise<number> {
  const query = await withWholeId(readQuery(flags), paths);
  const stdout = query.follow ? openStdout() : plainStdout();
  const form = createLineFormat({
    colour: hasColour(1),
    columns: isTerminal(1) ? () => terminalColumns(process.stdout) : null,
  });
  let lines = 0;
  const show = (line: string) => {
    lines += 1;
    return showLine(stdout, line, json ? null : form);
  };
  const interrupt = onInterrupt();
  const signal = anySignal([interrupt.signal, stdout.gone]);
  const onStop = () => json || note('The daemon stopped.');
  const ending = query.follow ? await fromDaemon(paths, query, show, signal, onStop) : 'none';
  if (ending === 'none') await fromFiles(paths, query, show, signal);
  await stdout.flush();
  interrupt.release();
  if (interrupt.signal.aborted) {
    // The terminal shows ^C. The prompt of the shell begins on the next line.
    if (isTerminal(2)) note('');
    return INTERRUPTED;
  }
  if (stdout.gone.aborted) return 0;
  if (query.follow && ending === 'none')
    throw new SvcError(
      'daemon_not_running',
      'The daemon is not running, so there is nothing to follow.',
    );
  if (lines === 0 && !query.follow) {
    // The files may have lines of a removed run, so the run is looked up last.
    if (query.run !== undefined) await knownRun(query.run, paths);
    if (!json) note('No matching lines.');
  }
  return 0;
}

/** A run may be written as `last` or by its beginning. Throws run_unknown, run_ambiguous. */
async function withWholeId(query: LogQuery, paths: Paths): Promise<LogQuery> {
  const { run } = query;
  if (run === undefined || WHOLE_ID.test(run)) return query;
  return { ...query, run: await knownRun(run, paths) };
}

/** A whole id needs no look into the event log. */
const WHOLE_ID = /^run_\w{26}$/;

/** Imported on use: it reads the log of events. The build leaves it out of the quick command. */
async function knownRun(written: string, paths: Paths): Promise<string> {
  const { knownId } = await import('../../terminal/connect/whole-id.ts');
  return knownId(paths, written);
}

/** Goes on with a daemon that takes over, from the last line. */
async function fromDaemon(
  paths: Paths,
  query: LogQuery,
  show: (line: string) => Promise<void>,
  signal: AbortSignal,
  onStop: () => void,
): Promise<'done' | 'stopped' | 'none'> {
  // Not imported above: the network of Node is slow to load.
  const { findAddress } = await import('../health/address.ts');
  const { linesFromDaemon } = await import('./from-daemon.ts');
  const { readToken } = await import('../token/read-token.ts');
  const { untilReady } = await import('../../terminal/connect/until-ready.ts');
  const { ReadLines } = await import('./read-lines.ts');
  const read = new ReadLines(query);
  const take = async (line: string) => void (read.take(line) && (await show(line)));
  for (let asked = query, losses = 0; ; asked = read.next()) {
    const before = read.count;
    let lost: SvcError | null = null;
    const ending = await findAddress(paths, 'http')
      .then((http) => linesFromDaemon(http, readToken(paths.token), asked, take, signal))
      .catch((error: unknown) => {
        if (losses === 0 && hasCode(error, 'daemon_not_running')) return 'none';
        if (losses + read.count === 0 || !hasCode(error, 'connection_lost', 'daemon_not_running'))
          throw error;
        lost = error;
        return 'stopped';
      });
    if (ending !== 'stopped') return ending;
    if (lost === null) onStop();
    losses = read.count > before ? 1 : losses + 1;
    if (losses <= LOSSES_MAX && (await untilReady(paths, { signal }))) continue;
    if (lost === null || signal.aborted) return 'stopped';
    throw lost;
  }
}

/** Connections in a row that brought no line. */
const LOSSES_MAX = 5;

async function fromFiles(
  paths: Paths,
  query: LogQuery,
  show: (line: string) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  for await (const lines of openTail(paths.logs, query)) {
    for (const line of lines) {
      if (signal.aborted) return;
      await show(line);
    }
  }
}

/** As JSON without a form. Lines that were dropped for a slow reader are reported on stderr. */
function showLine(
  stdout: StdoutStream,
  line: string,
  form: ((line: string) => string) | null,
): Promise<void> {
  if (form === null) return stdout.write(`${spellUnseen(line)}\n`);
  const missed = readLine(line)?.missed;
  if (typeof missed === 'number')
    note(`${missed} lines were dropped: they came faster than they were read.`);
  return typeof missed === 'number' ? Promise.resolve() : stdout.write(`${form(line)}\n`);
}
