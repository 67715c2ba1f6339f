import { once } from 'node:events';
import { createWriteStream, openSync, rmSync } from 'node:fs';
import { SvcError } from '../../../errors.ts';
import { spellUnseen } from '../../../logs/plain.ts';
import { isTerminal } from './output.ts';
import { openStdout } from './stdout-stream.ts';

/** The target of an export. Output does not collect in memory. */
export interface Output {
  /** The reader is gone. */
  readonly gone: boolean;
  write(text: string): Promise<void>;
  close(): Promise<void>;
  /** Deletes the incomplete file. */
  abandon(): Promise<void>;
}

/** A new private file, or stdout. Throws output_exists: an existing file is never overwritten. */
export function openOutput(file: string | undefined): Output {
  return file === undefined ? toStdout() : toFile(file);
}

function toStdout(): Output {
  const stdout = openStdout();
  const shown = isTerminal(1) ? spellUnseen : (text: string) => text;
  return {
    get gone() {
      return stdout.gone.aborted;
    },
    write: (text) => stdout.write(shown(text)),
    close: () => stdout.flush(),
    abandon: () => stdout.flush(),
  };
}

function toFile(file: string): Output {
  const stream = createWriteStream(file, { fd: create(file) });
  let failure: Error | null = null;
  stream.on('error', (error) => {
    failure = error;
  });
  const end = async () => {
    if (failure === null && !stream.destroyed)
      await new Promise<void>((resolve) => stream.end(resolve));
  };
  const check = () => {
    if (failure !== null) throw writeErrorOf(file, failure);
  };
  return {
    gone: false,
    async write(text) {
      if (!stream.write(text) && failure === null) await once(stream, 'drain').catch(() => {});
      check();
    },
    async close() {
      await end();
      check();
    },
    async abandon() {
      stream.destroy();
      rmSync(file, { force: true });
    },
  };
}

function create(file: string): number {
  try {
    return openSync(file, 'wx', 0o600);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST')
      throw new SvcError('output_exists', `${file} exists and is not overwritten.`);
    throw writeErrorOf(file, error);
  }
}

function writeErrorOf(file: string, cause: unknown): SvcError {
  return new SvcError(
    'usage',
    `The file ${file} cannot be written (${(cause as NodeJS.ErrnoException).code}).`,
    { cause, hint: 'Choose another with --output.' },
  );
}
