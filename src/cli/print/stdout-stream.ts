import { SvcError } from '../../errors.ts';

/**
 * stdout for output that comes bit by bit.
 *
 * 1. `write` resolves when there is room for more: what is printed is never gathered in memory.
 * 2. `gone` is aborted when whoever read it has left; what is written from then on goes nowhere.
 */
export interface StdoutStream {
  readonly gone: AbortSignal;
  write(text: string): Promise<void>;
  /** Resolves when all of it is out, or the reader has left. Throws what kept it from being written. */
  flush(): Promise<void>;
}

export function openStdout(): StdoutStream {
  const { stdout } = process;
  const left = new AbortController();
  let failure: SvcError | null = null;
  let wake = () => {};
  stdout.on('drain', () => wake());
  stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') failure = unwritable(error);
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

function unwritable(cause: NodeJS.ErrnoException): SvcError {
  return new SvcError('internal', `The output cannot be written (${cause.code}).`, {
    cause,
    hint: 'Look at where stdout goes: is there space, and is it open?',
  });
}
