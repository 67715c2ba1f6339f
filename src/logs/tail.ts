import { defaultLimits } from '../limits.ts';
import { linesBackwards } from './backwards.ts';
import { type LogSource, openLogs } from './files.ts';
import { createFilter, type LogFilter, readLine } from './filter.ts';

export interface TailQuery extends LogFilter {
  /** Lines at most. */
  lines: number;
}

export interface TailOptions {
  /** Bytes read at most; a search that is given up there says so in its first line. */
  search_bytes?: number;
  block_bytes?: number;
  open?: (folder: string) => LogSource[];
}

/**
 * The last log lines that match, oldest first, each a JSON object. Reads from the end backwards, and no more than it takes
 * to find them. The files are opened before it first waits: lines logged after the call are not among them.
 */
export async function readTail(folder: string, query: TailQuery, options: TailOptions = {}): Promise<string[]> {
  if (query.lines === 0) return [];
  const sources = (options.open ?? openLogs)(folder);
  try {
    return (await searchBackwards(sources, query, options)).reverse();
  } finally {
    for (const source of sources) source.close();
  }
}

/** Newest first. */
async function searchBackwards(sources: LogSource[], query: TailQuery, options: TailOptions): Promise<string[]> {
  const { search_bytes = defaultLimits.log_search_bytes, block_bytes = BLOCK_BYTES } = options;
  const judge = createFilter(query);
  const found: string[] = [];
  let unread = sources.reduce((total, source) => total + source.size, 0);
  let left = search_bytes;
  for (const source of sources) {
    for await (const { lines, bytes } of linesBackwards(source, block_bytes)) {
      for (const line of lines) {
        const verdict = judge(line);
        if (verdict === 'older') return found;
        if (verdict === 'match' && found.push(readLine(line) === null ? unreadable(line) : line) === query.lines) return found;
      }
      unread -= bytes;
      left -= bytes;
      if (left <= 0 && unread > 0) return [...found, notSearched(search_bytes - left)];
    }
  }
  return found;
}

const BLOCK_BYTES = 64 * 1024;
const RAW_LENGTH_MAX = 1024;

/** What is not a log line (cut off by a power failure, or written by somebody else) as one. */
function unreadable(line: string): string {
  return JSON.stringify({ level: 'warn', msg: 'A line of the log cannot be read.', raw: line.slice(0, RAW_LENGTH_MAX) });
}

function notSearched(searched_bytes: number): string {
  return JSON.stringify({ level: 'warn', msg: `Only the last ${searched_bytes} bytes of the log were searched; older lines may match too.`, searched_bytes });
}
