import { createReadStream } from 'node:fs';
import { SvcError } from '../../errors.ts';
import type { Paths } from '../../home/paths.ts';
import { oneLine } from '../../logs/plain.ts';
import { foldRows } from '../../runtime/history/fold-rows.ts';
import { importLog } from '../../store/transfer/import.ts';
import { withoutDaemon } from '../config/database.ts';
import type { Context } from '../context.ts';
import { isTerminal, note, printJson } from '../print/output.ts';
import { EventProgress } from './progress.ts';
import { openTarget } from './stores.ts';

/** Writes a log that `svc export --all` has written into the configured store. */
export async function run({ paths, args, json }: Context): Promise<number> {
  const [file = '-'] = args;
  if (file === '-' && isTerminal(0))
    throw new SvcError(
      'usage',
      'Give the file of a log, or pipe it: svc export --all | svc import',
    );
  const { imported, name } = await withoutDaemon(() => importFrom(file, paths));
  const { events, runs } = imported;
  if (json) printJson(imported);
  else note(oneLine(`Imported into ${name}: ${count(events, 'event')}, ${count(runs, 'run')}.`));
  return 0;
}

async function importFrom(file: string, paths: Paths) {
  const { target, name } = await openTarget(paths);
  try {
    const progress = new EventProgress(true);
    const imported = await importLog(bytesOf(file), {
      ...{ target, folder: foldRows() },
      onProgress: (events, of) => progress.at(events, of),
    });
    return { imported, name };
  } finally {
    await target.close();
  }
}

async function* bytesOf(file: string): AsyncIterable<Uint8Array> {
  try {
    yield* file === '-' ? process.stdin : createReadStream(file);
  } catch (cause) {
    const { code = 'unknown reason' } = cause as NodeJS.ErrnoException;
    throw new SvcError('usage', `${file === '-' ? 'stdin' : file} cannot be read (${code}).`, {
      cause,
    });
  }
}

function count(number: number, thing: string): string {
  return `${number} ${thing}${number === 1 ? '' : 's'}`;
}
