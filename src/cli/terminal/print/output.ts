import type { styleText } from 'node:util';
import { SvcError } from '../../../errors.ts';
import { isTerminal } from '../../../home/terminal.ts';
import { oneLine, spellUnseen } from '../../../logs/plain.ts';
import { terminalColumns } from '../../../logs/width.ts';
import { wrapLines } from '../../../logs/word-wrap.ts';

export { isTerminal };

/**
 * The output of a command. stdout has the answer or the data only; the rest goes to stderr.
 * It writes to the file descriptors: the streams of Node cost a tenth of a quick command.
 */

// Not imported: see paths.ts.
const { writeSync } = process.getBuiltinModule('node:fs');

/** Makes the present line of a terminal empty. */
export const ERASE = '\r\u001b[K';

/** Thrown when the reader of stdout is gone (`svc logs | head`). */
export const READER_GONE = Symbol('reader gone');

/** Prints lines on stdout. */
export function print(text: string): void {
  if (!writeAll(1, `${text}\n`)) throw READER_GONE;
}

/** Prints sentences on stdout. A terminal gets them broken between words. */
export function say(text: string): void {
  print(isTerminal(1) ? wrapLines(text, terminalColumns(process.stdout)) : text);
}

/** Returns the exit status of success, with which most commands end then. */
export function printJson(value: unknown): 0 {
  print(spellUnseen(JSON.stringify(value, null, 2)));
  return 0;
}

let clear = () => {};

/** Calls it before each message on stderr, to erase temporary lines. */
export function beforeNotes(call: () => void): void {
  clear = call;
}

/** Prints a message for the user on stderr. A terminal gets it broken between words. */
export function note(text: string): void {
  noteAsIs(isTerminal(2) ? wrapLines(text, terminalColumns(process.stderr)) : text);
}

function noteAsIs(text: string): void {
  clear();
  writeAll(2, `${text}\n`);
}

/** Prints a warning on stderr. */
export function warn(text: string): void {
  note(`${paint('yellow', 'warning:', 2)} ${oneLine(text)}`);
}

/** Writes to stderr as it is. */
export function writeError(text: string): void {
  writeAll(2, text);
}

/** Prints an error on stderr, as text or JSON. */
export function printError(error: SvcError, json: boolean): void {
  if (json) noteAsIs(spellUnseen(JSON.stringify({ error: error.body() })));
  else
    note(
      `${paint('red', 'error:', 2)} ${oneLine(error.message)}\n` +
        `${paint('dim', 'hint:', 2)} ${oneLine(error.hint)}`,
    );
}

type Style = Parameters<typeof styleText>[0];

/** Adds a style if the descriptor is a terminal with colours. */
export function paint(style: Style, text: string, fd: 1 | 2 = 1): string {
  return hasColour(fd)
    ? process.getBuiltinModule('node:util').styleText(style, text, { validateStream: false })
    : text;
}

const colours = new Map<number, boolean>();

/** Whether text for the descriptor is painted. */
export function hasColour(fd: 1 | 2): boolean {
  const known = colours.get(fd);
  if (known !== undefined) return known;
  const { NO_COLOR, FORCE_COLOR, TERM } = process.env;
  const wanted = FORCE_COLOR !== undefined && FORCE_COLOR !== '' && FORCE_COLOR !== '0';
  const found = !NO_COLOR && (wanted || (TERM !== 'dumb' && isTerminal(fd)));
  colours.set(fd, found);
  return found;
}

/** False if the reader is gone. Waits for a full pipe, as a blocking write does. */
export function writeAll(fd: 1 | 2, text: string): boolean {
  const bytes = Buffer.from(text);
  for (let sent = 0; sent < bytes.length; ) {
    try {
      sent += writeSync(fd, bytes, sent);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'EPIPE') return false;
      if (code !== 'EAGAIN') {
        if (fd === 2) return false;
        throw new SvcError('internal', `The output cannot be written (${code}).`, {
          cause: error,
          hint: 'Check the target of stdout: does it have space, and is it open?',
        });
      }
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, FULL_PIPE_MS);
    }
  }
  return true;
}

const FULL_PIPE_MS = 5;
