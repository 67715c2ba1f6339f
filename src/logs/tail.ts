import { fixedLimits } from '../limits.ts';
import { type LogSource, openLogs } from './files.ts';
import { createFilter, type LogFilter, readLine } from './filter.ts';

export interface TailQuery extends LogFilter {
  /** Maximum of lines. */
  lines: number;
}

export interface TailOptions {
  /** Maximum of bytes read. If the search ends there, the first line says so. */
  search_bytes?: number;
  block_bytes?: number;
  open?: (folder: string) => LogSource[];
}

/**
 * The last matching log lines, oldest first, in groups of about a block.
 * The files are opened now, so later lines are not included. It searches backwards for the first
 * line, then reads forwards. A tail of any length therefore needs the memory of one block.
 */
export function openTail(
  folder: string,
  query: TailQuery,
  options: TailOptions = {},
): AsyncGenerator<string[]> {
  return readGroups(query.lines === 0 ? [] : (options.open ?? openLogs)(folder), query, options);
}

/** The same in one array, for a few lines. */
export async function readTail(
  folder: string,
  query: TailQuery,
  options: TailOptions = {},
): Promise<string[]> {
  const lines: string[] = [];
  for await (const group of openTail(folder, query, options)) lines.push(...group);
  return lines;
}

async function* readGroups(
  sources: LogSource[],
  query: TailQuery,
  options: TailOptions,
): AsyncGenerator<string[]> {
  const { search_bytes = fixedLimits.log_search_bytes, block_bytes = BLOCK_BYTES } = options;
  const judge = createFilter(query);
  const [newest] = sources;
  try {
    if (newest !== undefined) newest.size = await wholeSize(newest, block_bytes);
    const { first, given_up } = await findFirst(sources, query, judge, search_bytes, block_bytes);
    if (given_up !== null) yield [notSearchedLine(given_up)];
    if (first === null) return;
    for (const [index, source] of [...sources.slice(0, first.index + 1).entries()].reverse()) {
      const from = index === first.index ? first.start : 0;
      for await (const lines of linesForwards(source, from, block_bytes)) {
        const found = lines
          .filter((line) => judge(line) === 'match')
          .map((line) => (readLine(line) === null ? unreadableLineOf(line) : line));
        if (found.length > 0) yield found;
      }
    }
  } finally {
    for (const source of sources) source.close();
  }
}

/** Without a last line that is cut off: it is being written, or the disk had no space for it. */
async function wholeSize(source: LogSource, block_bytes: number): Promise<number> {
  const { size } = source;
  const end = async (length: number) =>
    (await source.read(Math.max(0, size - length), Math.min(size, length))).toString('latin1');
  if ((await end(1)) === '\n') return size;
  const text = await end(block_bytes);
  const last = text.slice(text.lastIndexOf('\n') + 1);
  const isOther = readLine(last) !== null || (last === text && size > text.length);
  return isOther ? size : size - last.length;
}

interface Found {
  /** Where the first matching line begins; null if no line matches. */
  first: { index: number; start: number } | null;
  /** Bytes searched, if the search reached its limit. */
  given_up: number | null;
}

/** Searches the newest first, until there are enough lines. */
async function findFirst(
  sources: LogSource[],
  { lines: wanted }: TailQuery,
  judge: ReturnType<typeof createFilter>,
  search_bytes: number,
  block_bytes: number,
): Promise<Found> {
  let unread = sources.reduce((total, source) => total + source.size, 0);
  let [left, count] = [search_bytes, 0];
  let first: Found['first'] = null;
  for (const [index, source] of sources.entries()) {
    for await (const { lines, bytes } of linesBackwards(source, block_bytes)) {
      for (const { text, start } of lines) {
        const verdict = judge(text);
        if (verdict === 'older') return { first, given_up: null };
        if (verdict !== 'match') continue;
        first = { index, start };
        count += 1;
        if (count === wanted) return { first, given_up: null };
      }
      unread -= bytes;
      left -= bytes;
      if (left <= 0 && unread > 0) return { first, given_up: search_bytes - left };
    }
  }
  return { first, given_up: null };
}

const BLOCK_BYTES = 64 * 1024;
const RAW_LENGTH_MAX = 1024;

/** Wraps a line that is no JSON: cut off by a power failure, or written by another program. */
function unreadableLineOf(line: string): string {
  return JSON.stringify({
    level: 'warn',
    msg: 'A line of the log cannot be read.',
    raw: line.slice(0, RAW_LENGTH_MAX),
  });
}

function notSearchedLine(searched_bytes: number): string {
  return JSON.stringify({
    level: 'warn',
    msg:
      `Only the last ${searched_bytes} bytes of the log were searched; ` +
      'older lines may match too.',
    searched_bytes,
  });
}

const NEWLINE = 0x0a;

/** Reads lines from an offset to the end, in groups, one block at a time. Skips empty lines. */
async function* linesForwards(
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

interface Line {
  text: string;
  /** Its offset in the file. */
  start: number;
}

interface LineGroup {
  /** Last line first, without empty lines. */
  lines: Line[];
  /** Bytes read for them. */
  bytes: number;
}

/** Reads lines from the last to the first, in groups, block by block from the end of the file. */
async function* linesBackwards(source: LogSource, block_bytes: number): AsyncGenerator<LineGroup> {
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
