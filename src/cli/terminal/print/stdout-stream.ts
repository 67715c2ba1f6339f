import { SvcError } from '../../../errors.ts';
import { writeAll } from './output.ts';

/**
 * stdout for streamed output.
 *
 * 1. `write` resolves when there is room for more, so output does not collect in memory.
 * 2. `gone` aborts when the reader is gone; later writes are dropped.
 */
export interface StdoutStream {
  readonly gone: AbortSignal;
  write(text: string): Promise<void>;
  /** Resolves when all is written, or the reader is gone. Throws the error of a failed write. */
  flush(): Promise<void>;
}

export function openStdout(): StdoutStream {
  const { stdout } = process;
  const left = new AbortController();
  let failure: SvcError | null = null;
  let wake = () => {};
  stdout.on('drain', () => wake());
  stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') failure = writeErrorOf(error);
    left.abort();
    wake();
  });
  const waitFor = (arm: (resolve: () => void) => void) =>
    new Promise<void>((resolve) => {
      wake = resolve;
      arm(resolve);
    });
  return {
    gone: left.signal,
    async write(text) {
      if (!left.signal.aborted && !stdout.write(text)) await waitFor(() => {});
    },
    async flush() {
      if (!left.signal.aborted && stdout.writableLength > 0)
        await waitFor((resolve) => stdout.write('', () => resolve()));
      if (failure !== null) throw failure;
    },
  };
}

/** A stream over the file descriptor, for output that waits only for its reader. */
export function plainStdout(): StdoutStream {
  const left = new AbortController();
  return {
    gone: left.signal,
    async write(text) {
      if (!left.signal.aborted && !writeAll(1, text)) left.abort();
    },
    async flush() {},
  };
}

function writeErrorOf(cause: NodeJS.ErrnoException): SvcError {
  return new SvcError('internal', `The output cannot be written (${cause.code}).`, {
    cause,
    hint: 'Check the target of stdout: does it have space, and is it open?',
  });
}
