import { createInterface } from 'node:readline';
import { isTerminal, note, writeError } from '../terminal/print/output.ts';
import { keepTyped } from '../terminal/print/question.ts';
import { stopAtCtrlZ } from '../terminal/print/stop-job.ts';
import type { Completion } from './complete.ts';
import type { ChatHistory } from './history.ts';

/** The messages of a user, one after the other. */
export interface Messages {
  /** Null: there are no more. */
  next(): Promise<string | null>;
  /** Drops lines that were pasted with the last one. */
  drop(): void;
  close(): void;
}

/** The completions of a line for Tab. Null: the line is a message. */
type Complete = (line: string) => Completion | null | Promise<Completion>;

/** A line; undefined: Ctrl-C was typed instead, null: the input has ended. */
type Line = string | null | undefined;

const QUOTES = '"""';
const FIRST = '> ';
const MORE = '… ';

/** Messages that are typed at a terminal, with a history, or come as lines of a pipe. */
export function openMessages(history: ChatHistory | null, complete: Complete): Messages {
  const { read, drop, close } = isTerminal(0)
    ? createTypedSource(history, complete)
    : createPipedSource();
  return { next: () => nextMessage(read), drop, close };
}

interface Source {
  read(prompt: string): Promise<Line>;
  drop(): void;
  close(): void;
}

/**
 * One message. A line that ends with a backslash continues on the next one. A message between
 * three quotes has all lines up to the closing ones. Ctrl-C drops the typed part.
 */
export async function nextMessage(read: Source['read']): Promise<string | null> {
  for (;;) {
    const first = await read(FIRST);
    if (first === null) return null;
    if (first === undefined) continue;
    const isQuoted = first.trimStart().startsWith(QUOTES);
    const lines = [isQuoted ? first.trimStart().slice(QUOTES.length) : first];
    const isOpen = () =>
      isQuoted ? !lines.at(-1)?.trimEnd().endsWith(QUOTES) : lines.at(-1)?.endsWith('\\') === true;
    let line: Line = first;
    while (isOpen() && line != null) {
      line = await read(MORE);
      if (line != null) lines.push(line);
    }
    if (line === undefined) continue;
    return isQuoted
      ? lines.join('\n').trimEnd().replace(/"""$/, '').trim()
      : lines.map((each) => each.replace(/\\$/, '')).join('\n');
  }
}

/**
 * Each line has its own editor, so that between two lines the terminal is as usual: Ctrl-C is a
 * signal then, which stops the answer. The terminal marks pasted text, so a text of several
 * lines is one message, which Enter sends. A tab in a message stays a tab.
 */
function createTypedSource(history: ChatHistory | null, complete: Complete): Source {
  const waiting: string[] = [];
  let draft = '';
  // Text typed while the model worked is typed again, into the next editor.
  keepTyped((text) => {
    draft += text;
  });
  const read = (prompt: string) => {
    const ready = waiting.shift();
    if (ready !== undefined) return Promise.resolve(ready);
    return new Promise<Line>((resolve) => {
      const editor = createInterface({
        input: process.stdin,
        output: isTerminal(2) ? process.stderr : process.stdout,
        terminal: true,
        prompt,
        history: [...(history?.lines ?? [])],
        historySize: history?.lines_max ?? 0,
        removeHistoryDuplicates: true,
        completer: (line: string, done: (_: null, found: Completion) => void) => {
          const found = prompt === FIRST ? complete(line) : null;
          if (found instanceof Promise) void found.then((names) => done(null, names));
          else done(null, found ?? [[`${line}\t`], line]);
        },
      });
      let line: Line = null;
      // Of the text typed before, one line is a message.
      const end = draft.indexOf('\n') + 1 || draft.length;
      const [begun, later] = [draft.slice(0, end), draft.slice(end)];
      const pasted: string[] = [];
      const paste = watchPaste();
      stopAtCtrlZ(editor, { stop: paste.end, goOn: paste.begin });
      editor.on('line', (typed) => {
        // An entry of several lines comes back with other line ends from some versions of Node.
        const each = typed.replaceAll('\r', '\n');
        if (line === null && paste.isOpen()) {
          pasted.push(each);
          editor.setPrompt(MORE);
          editor.prompt();
          return;
        }
        const whole = [...(line === null ? pasted : []), each].join('\n');
        history?.add(whole);
        if (line !== null) waiting.push(whole);
        else {
          line = whole;
          // Lines that were pasted with this one come first.
          setImmediate(() => editor.close());
        }
      });
      editor.on('SIGINT', () => {
        line = undefined;
        const isEmpty = editor.line === '' && prompt === FIRST;
        editor.close();
        note(isEmpty ? '\nCtrl-D or /exit ends the chat.' : '');
      });
      editor.on('close', () => {
        paste.end();
        draft = typeof line === 'string' ? later + editor.line : '';
        if (line === null) note('');
        resolve(line);
      });
      editor.prompt();
      if (begun !== '') editor.write(begun);
    });
  };
  const drop = () => {
    waiting.length = 0;
    draft = '';
  };
  return { read, drop, close: () => process.stdin.unref() };
}

/** Has the terminal mark pasted text. A terminal that cannot do so ignores it. */
function watchPaste(): { isOpen(): boolean; begin(): void; end(): void } {
  let isOpen = false;
  const onKey = (_: unknown, { name }: { name?: string } = {}) => {
    if (name === 'paste-start' || name === 'paste-end') isOpen = name === 'paste-start';
  };
  const begin = () => {
    process.stdin.on('keypress', onKey);
    markPastes(true);
  };
  const end = () => {
    process.stdin.off('keypress', onKey);
    markPastes(false);
  };
  begin();
  return { isOpen: () => isOpen, begin, end };
}

/** The bracketed paste of xterm. */
function markPastes(on: boolean): void {
  if (process.env.TERM !== 'dumb') writeError(on ? '\u001b[?2004h' : '\u001b[?2004l');
}

function createPipedSource(): Source {
  const input = createInterface({ input: process.stdin, crlfDelay: Number.POSITIVE_INFINITY });
  const lines = input[Symbol.asyncIterator]();
  const read = async () => {
    const { value, done } = await lines.next();
    return done === true ? null : value;
  };
  return { read, drop: () => {}, close: () => input.close() };
}
