import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import type { Readable } from 'node:stream';
import { whyUnusable } from '../../../causes.ts';
import { SvcError } from '../../../errors.ts';
import type { Paths } from '../../../home/paths.ts';
import { importLog } from '../../../kernel/store/transfer/import.ts';
import { oneLine } from '../../../logs/plain.ts';
import { foldRows } from '../../../observability/history/fold-rows.ts';
import type { Context } from '../../terminal/context.ts';
import { withoutDaemon } from '../../terminal/offline/database.ts';
import { isTerminal, note, printJson } from '../../terminal/print/output.ts';
import { EventProgress } from './progress.ts';
import { openTarget } from './stores.ts';

/** Writes a log that `svc export` has written into the configured store. */
export async function run({ paths, args, json }: Context): Promise<number> {
  const [file = '-'] = args;
  if (file === '-' && isTerminal(0))
    throw new SvcError('usage', 'Give the file of a log, or pipe it: svc export | svc import');
  // Opened first: without the file it does not matter whether a daemon runs.
  const input = file === '-' ? process.stdin : await openFile(file);
  const { imported, name } = await withoutDaemon(() => importFrom(bytesOf(input, file), paths));
  const { events, runs } = imported;
  if (json) printJson(imported);
  else note(oneLine(`Imported into ${name}: ${count(events, 'event')}, ${count(runs, 'run')}.`));
  return 0;
}

async function importFrom(bytes: AsyncIterable<Uint8Array>, paths: Paths) {
  const { target, name } = await openTarget(paths);
  try {
    const progress = new EventProgress(true);
    const imported = await importLog(bytes, {
      target,
      folder: foldRows(),
      onProgress: (events, of) => progress.at(events, of),
    });
    return { imported, name };
  } finally {
    await target.close();
  }
}

async function openFile(file: string): Promise<Readable> {
  const stream = createReadStream(file);
  await once(stream, 'open').catch((cause: unknown) => {
    throw readErrorOf(file, cause);
  });
  return stream;
}

async function* bytesOf(input: Readable, file: string): AsyncIterable<Uint8Array> {
  try {
    yield* input;
  } catch (cause) {
    throw readErrorOf(file === '-' ? 'stdin' : file, cause);
  }
}

function readErrorOf(name: string, cause: unknown): SvcError {
  return new SvcError('usage', `${name} cannot be used: ${whyUnusable(cause)}.`, { cause });
}

function count(number: number, thing: string): string {
  return `${number} ${thing}${number === 1 ? '' : 's'}`;
}
