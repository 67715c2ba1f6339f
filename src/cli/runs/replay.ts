import { closeSync, constants, existsSync, fstatSync, openSync, readSync } from 'node:fs';
import { statePath } from '../../../machines/step.ts';
import { SvcError } from '../../errors.ts';
import { streamOf } from '../../kernel/pages.ts';
import { oneLine } from '../../logs/plain.ts';
import { foldRunFile, parseRunFile } from '../../observability/history/run-file.ts';
import { Chain } from '../../observability/history/why.ts';
import { mayBeId } from '../../runtime/runs/find.ts';
import { runRecord } from '../../runtime/runs/record.ts';
import type { Context } from '../terminal/context.ts';
import { limitsOf } from '../terminal/offline/limits.ts';
import { withLog } from '../terminal/offline/open-log.ts';
import { eventFlag } from '../terminal/parse/flag-values.ts';
import { note, paint, print, printJson } from '../terminal/print/output.ts';
import { recordText } from './show.ts';
import { noSuchRun } from './why.ts';

/** The state of a run after an event, folded from the log or from an export. */
export async function run({ paths, args, flags, json }: Context): Promise<number> {
  const at = eventFlag(flags, 'at');
  const name = args[0] ?? '';
  const isId = /^run_\w+$/.test(name) || (mayBeId(name) && !existsSync(name));
  const chain = isId ? await foldFromLog(paths, name, at) : foldFile(paths, name, at);
  const { snapshot } = chain;
  const last = chain.events.at(-1);
  if (snapshot === undefined || last === undefined)
    throw isId ? await notThen(paths, name, at) : notInFile(name, at);
  const record = runRecord(snapshot, last.seq);
  if (json) printJson({ seq: last.seq, at: last.at, state_path: statePath(snapshot), run: record });
  else {
    const state = paint('bold', oneLine(statePath(snapshot)));
    print(`${state} after the event ${last.seq} (${oneLine(last.type)})`);
    print(`\n${recordText(record)}\n`);
    print(shortenLines(chain.explanation()).map(oneLine).join('\n'));
  }
  return 0;
}

async function foldFromLog(
  paths: Context['paths'],
  id: string,
  at = Number.POSITIVE_INFINITY,
): Promise<Chain> {
  return withLog(paths, async (log) => {
    const chain = new Chain();
    for await (const event of streamOf(log, await log.findRun(id))) {
      if (event.seq > at) break;
      chain.add(event);
    }
    return chain;
  });
}

function foldFile({ config }: Context['paths'], name: string, at?: number): Chain {
  const file = parseRunFile(readWhole(name, limitsOf(config).replay_bytes));
  const written = file.exported_at === '' ? '' : ` at ${file.exported_at}`;
  const redacted = file.redacted ? '; redacted' : '';
  note(oneLine(`${file.run_id}, written by svc ${file.program_version}${written}${redacted}.`));
  return foldRunFile(file, at);
}

/** The error if the run has no event up to `at`. */
async function notThen(
  paths: Context['paths'],
  id: string,
  at: number | undefined,
): Promise<SvcError> {
  const [first] = await withLog(paths, async (log) => log.readStream(await log.findRun(id), 1, 1));
  if (first === undefined) return noSuchRun(id);
  if (first.version !== 1)
    return new SvcError('run_unknown', `The beginning of the run ${id} is no longer in the log.`, {
      param: 'id',
    });
  return new SvcError('usage', `The run ${id} began with the event ${first.seq}, after ${at}.`, {
    param: 'at',
  });
}

function notInFile(name: string, at: number | undefined): SvcError {
  return new SvcError('usage', `The run in ${name} began after the event ${at}.`, { param: 'at' });
}

function shortenLines(lines: string[]): string[] {
  if (lines.length <= 2 * LINES) return lines;
  return [...lines.slice(0, LINES), `… ${lines.length - 2 * LINES} more …`, ...lines.slice(-LINES)];
}

const LINES = 50;

/** Reads a file as text. Throws export_invalid for special, large or binary files, and usage. */
function readWhole(name: string, bytes_max: number): string {
  let fd: number;
  try {
    fd = openSync(name, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  } catch (error) {
    throw new SvcError(
      'usage',
      `The file ${JSON.stringify(name)} cannot be read (${(error as NodeJS.ErrnoException).code}).`,
      { cause: error, hint: 'Give the id of a run, or a file that svc runs export wrote.' },
    );
  }
  try {
    return decode(readBytes(fd, name, bytes_max), name);
  } finally {
    closeSync(fd);
  }
}

function readBytes(fd: number, name: string, bytes_max: number): Buffer {
  const info = fstatSync(fd);
  if (!info.isFile()) throw new SvcError('export_invalid', `${name} is not a file.`);
  if (info.size > bytes_max)
    throw new SvcError(
      'export_invalid',
      `${name} has ${info.size} bytes; at most ${bytes_max} are read.`,
    );
  const bytes = Buffer.alloc(info.size);
  let read = 0;
  while (read < bytes.length) {
    const count = readSync(fd, bytes, read, bytes.length - read, null);
    if (count === 0) break;
    read += count;
  }
  return bytes.subarray(0, read);
}

function decode(bytes: Buffer, name: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new SvcError('export_invalid', `${name} is not UTF-8 text.`);
  }
}
