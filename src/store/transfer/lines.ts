import { SvcError } from '../../errors.ts';
import { IMPORT_LINE_BYTES_MAX } from '../../limits.ts';

export interface FileLine {
  /** With its line break, as the digest covers it. */
  bytes: Uint8Array;
  /** Without it. */
  text: string;
}

const LINE_FEED = 0x0a;

/** The lines of a file. Throws import_invalid: a line is too long, cut off, or no UTF-8. */
export async function* linesOf(file: AsyncIterable<Uint8Array>): AsyncGenerator<FileLine> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  let parts: Uint8Array[] = [];
  let size = 0;
  const add = (part: Uint8Array) => {
    parts.push(part);
    size += part.length;
    if (size > IMPORT_LINE_BYTES_MAX)
      throw new SvcError('import_invalid', `A line has more than ${IMPORT_LINE_BYTES_MAX} bytes.`);
  };
  for await (const chunk of file) {
    let from = 0;
    for (let at = chunk.indexOf(LINE_FEED); at >= 0; at = chunk.indexOf(LINE_FEED, from)) {
      add(chunk.subarray(from, at + 1));
      const bytes = parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts);
      yield { bytes, text: decode(decoder, bytes.subarray(0, -1)) };
      [parts, size, from] = [[], 0, at + 1];
    }
    if (from < chunk.length) add(chunk.subarray(from));
  }
  if (size > 0)
    throw new SvcError('import_invalid', 'The file is cut off: its last line has no end.');
}

function decode(decoder: InstanceType<typeof TextDecoder>, bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch (cause) {
    throw new SvcError('import_invalid', 'The file was changed: a line is no UTF-8 text.', {
      cause,
    });
  }
}
