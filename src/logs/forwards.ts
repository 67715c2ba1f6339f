import type { LogSource } from './files.ts';

const NEWLINE = 0x0a;

/** Reads lines from an offset to the end, in groups, one block at a time. Skips empty lines. */
export async function* linesForwards(
  source: LogSource,
  from: number,
  block_bytes: number,
): AsyncGenerator<string[]> {
  /** Pieces of the line that continues in the next block. */
  let pieces: Buffer[] = [];
  for (let start = from; start < source.size; ) {
    const block = await source.read(start, Math.min(block_bytes, source.size - start));
    if (block.length === 0) break;
    start += block.length;
    const end = start >= source.size ? block.length : block.lastIndexOf(NEWLINE);
    if (end === -1) {
      pieces.push(block);
      continue;
    }
    const text = Buffer.concat([...pieces, block.subarray(0, end)]).toString('utf8');
    pieces = [block.subarray(end)];
    yield text
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '');
  }
}
