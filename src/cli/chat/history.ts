import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import type { Paths } from '../../home/paths.ts';

/** Entries that the editor offers, and characters of one that is kept. */
const LINES_MAX = 1000;
const LINE_MAX = 4096;
/** The end of a line within an entry, in the file. No line has this character: it is Enter. */
const BREAK = '\r';

/**
 * The input of chats, for the editor: typed lines, and pasted texts of several lines. It
 * owns a private file, which has them oldest first.
 *
 * 1. The file is cut to `LINES_MAX` lines when it is opened with twice as many.
 * 2. A file that cannot be read or written only costs the history.
 */
export class ChatHistory {
  readonly lines_max = LINES_MAX;
  /** Newest first, without repeats in a row. */
  readonly lines: string[] = [];
  private readonly file: string;

  constructor({ data }: Pick<Paths, 'data'>) {
    this.file = join(data, 'chat-history');
    this.read();
  }

  add(line: string): void {
    if (line.trim() === '' || line.length > LINE_MAX || line === this.lines[0]) return;
    this.lines.unshift(line);
    this.lines.length = Math.min(this.lines.length, LINES_MAX);
    ignoreErrors(() => {
      mkdirSync(dirname(this.file), { recursive: true, mode: 0o700 });
      appendFileSync(this.file, `${line.replaceAll('\n', BREAK)}\n`, { mode: 0o600 });
    });
  }

  private read(): void {
    ignoreErrors(() => {
      const lines = readFileSync(this.file, 'utf8').split('\n').slice(0, -1);
      const newest = lines.slice(-LINES_MAX).map((line) => line.replaceAll(BREAK, '\n'));
      this.lines.push(...newest.reverse());
      chmodSync(this.file, 0o600);
      if (lines.length < 2 * LINES_MAX) return;
      const short = `${this.file}.new`;
      writeFileSync(short, `${lines.slice(-LINES_MAX).join('\n')}\n`, { mode: 0o600 });
      renameSync(short, this.file);
    });
  }
}

function ignoreErrors(work: () => void): void {
  try {
    work();
  } catch {
    // The file is not there yet, or the disk does not take it.
  }
}
