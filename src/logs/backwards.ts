import type { LogSource } from './files.ts';

const NEWLINE = 0x0a;

export interface Line {
  text: string;
  /** Its offset in the file. */
  start: number;
}

export interface LineGroup {
  /** Last line first, without empty lines. */
  lines: Line[];
  /** Bytes read for them. */
  bytes: number;
}

/** Reads lines from the last to the first, in groups, block by block from the end of the file. */
export async function* linesBackwards(
  source: LogSource,
  block_bytes: number,
): AsyncGenerator<LineGroup> {
  /** Pieces of the line that begins before this block, last piece first. */
  let pieces: Buffer[] = [];
  const take = (first: Buffer, start: number): Line => {
    const line = pieces.length === 0 ? first : Buffer.concat([first, ...pieces.reverse()]);
    pieces = [];
    return { text: line.toString('utf8').trim(), start };
  };
  for (let end = source.size; end > 0; ) {
    const start = Math.max(0, end - block_bytes);
    const block = await source.read(start, end - start);
    const lines: Line[] = [];
    let to = block.length;
    for (
      let at = block.lastIndexOf(NEWLINE);
      at !== -1;
      at = at === 0 ? -1 : block.lastIndexOf(NEWLINE, at - 1)
    ) {
      lines.push(take(block.subarray(at + 1, to), start + at + 1));
      to = at;
    }
    pieces.push(block.subarray(0, to));
    if (start === 0) lines.push(take(Buffer.alloc(0), 0));
    yield { lines: lines.filter(({ text }) => text !== ''), bytes: end - start };
    end = start;
  }
}
