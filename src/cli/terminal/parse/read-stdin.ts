import type { SvcError } from '../../../errors.ts';
import { note } from '../print/output.ts';

/** After this silence the user sees that the command waits for stdin. */
const SILENCE_MS = 1_500;

/** All of stdin. Above `bytes_max` it reads no further, and throws the error of `tooLarge`. */
export async function readStdin(bytes_max: number, tooLarge: () => SvcError): Promise<Buffer> {
  const hint = setTimeout(
    () => note('Waiting for stdin to end (Ctrl-D at a terminal; < /dev/null for none).'),
    SILENCE_MS,
  );
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
      clearTimeout(hint);
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > bytes_max) throw tooLarge();
    }
  } finally {
    clearTimeout(hint);
    process.stdin.destroy();
  }
  return Buffer.concat(chunks);
}
