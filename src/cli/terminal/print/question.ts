import { Writable } from 'node:stream';
import { QUESTION_QUIET_MS } from '../../../limits.ts';
import { terminalColumns } from '../../../logs/width.ts';
import { wrapLines } from '../../../logs/word-wrap.ts';
import { INTERRUPTED } from '../interrupt.ts';
import { note, writeError } from './output.ts';
import { stopAtCtrlZ } from './stop-job.ts';

/**
 * Questions at a terminal.
 *
 * 1. An answer is typed after its question. Text typed before is not an answer, whether it waits in
 *    the terminal, in its open line, or in Node. The question is shown when no key comes.
 * 2. An answer is one of the words that the question shows, or the first letter alone of one.
 *    Anything else asks again.
 * 3. The end of the input (Ctrl-D) is the answer `end`. Ctrl-C is a signal, as without a question.
 */
export interface Question {
  text: string;
  answers: readonly string[];
  /** Words that are answers, too. */
  also?: readonly string[];
  /** The answer at the end of the input: the one without a consequence. */
  end: string;
  /** Someone else answers: the question ends. */
  signal?: AbortSignal;
}

/** Null: there is no answer, since the question ended or the terminal is gone. */
export async function askUser({
  text,
  answers,
  also = [],
  end,
  signal,
}: Question): Promise<string | null> {
  for (;;) {
    const asked = wrapLines(`${text} (${answers.join(', ')})`, terminalColumns(process.stderr));
    const line = await readAnswer(`${asked} `, { isSecret: false, signal });
    if (line === null) return null;
    if (line === END) return end;
    const word = line.trim().toLowerCase();
    const known = [...answers, ...also].find((each) => each.toLowerCase() === word);
    if (known !== undefined) return known;
    const [short, ...more] = answers.filter(([first]) => first === word);
    if (short !== undefined && more.length === 0) return short;
    note(`Type one of these words: ${answers.join(', ')}.`);
  }
}

/** Whether the answer is yes. */
export async function askYesOrNo(text: string): Promise<boolean> {
  return (await askUser({ text, answers: ['yes', 'no'], end: 'no' })) === 'yes';
}

/** The typed text is not shown. Null: nothing was typed. */
export async function askSecret(text: string): Promise<string | null> {
  const line = await readAnswer(text, { isSecret: true });
  return line === END ? null : line;
}

/** A chat keeps the text typed before a question: lines with their ends, and an open one. */
export function keepTyped(call: (text: string) => void): void {
  keep = call;
}
let keep = (_: string) => {};

/** Ctrl-D. */
const END = Symbol('end');
/** Ctrl-D before the question. */
const EARLY = Symbol('early');

interface Form {
  isSecret: boolean;
  signal?: AbortSignal | undefined;
}

async function readAnswer(prompt: string, form: Form): Promise<string | typeof END | null> {
  for (;;) {
    const read = await readOnce(prompt, form);
    if (read !== EARLY) return read;
  }
}

/**
 * One editor takes the earlier text, and then the answer. It is in raw mode from the first to
 * the last: there the terminal also gives a line that has no end yet.
 */
async function readOnce(
  prompt: string,
  { isSecret, signal }: Form,
): Promise<string | typeof END | typeof EARLY | null> {
  const { createInterface } = await import('node:readline');
  if (signal?.aborted === true) return null;
  const { stdin } = process;
  let isAsked = false;
  let result: string | typeof END | typeof EARLY | null = null;
  let before = '';
  const output = new Writable({
    write: (chunk, _encoding, done) => {
      if (isAsked && !isSecret) writeError(String(chunk));
      done();
    },
  });
  Object.defineProperty(output, 'columns', { get: () => process.stderr.columns });
  return new Promise((resolve) => {
    const editor = createInterface({ input: stdin, output, terminal: true, historySize: 0 });
    const finish = (value: typeof result) => {
      result = value;
      editor.close();
    };
    const ask = () => {
      before += editor.line;
      editor.write(null, { ctrl: true, name: 'e' });
      editor.write(null, { ctrl: true, name: 'u' });
      if (before !== '') keep(before);
      isAsked = true;
      if (isSecret) writeError(prompt);
      editor.setPrompt(prompt);
      editor.prompt();
    };
    // A busy process first reads the input that came meanwhile.
    let next: NodeJS.Immediate | undefined;
    const quiet = setTimeout(() => {
      next = setImmediate(ask);
    }, QUESTION_QUIET_MS);
    const onKey = (_: unknown, { ctrl, name }: { ctrl?: boolean; name?: string } = {}) => {
      if (!isAsked) {
        clearImmediate(next);
        quiet.refresh();
      }
      // An empty line makes it the end, and the editor closes.
      result = ctrl === true && name === 'd' ? (isAsked ? END : EARLY) : null;
    };
    const onAbort = () => finish(null);
    editor.on('line', (line) => {
      if (isAsked) finish(line);
      else before += `${line}\n`;
    });
    editor.on('SIGINT', () => {
      finish(null);
      if (!process.emit('SIGINT', 'SIGINT')) process.exit(INTERRUPTED);
    });
    editor.once('close', () => {
      clearTimeout(quiet);
      clearImmediate(next);
      stdin.off('keypress', onKey);
      signal?.removeEventListener('abort', onAbort);
      if (!isAsked && before + editor.line !== '') keep(before + editor.line);
      if (isAsked && (isSecret || typeof result !== 'string')) writeError('\n');
      resolve(result);
    });
    stopAtCtrlZ(editor, {
      stop: () => {},
      goOn: () => {
        if (isAsked && isSecret) writeError(prompt);
      },
    });
    // Before the editor handles it.
    stdin.prependListener('keypress', onKey);
    signal?.addEventListener('abort', onAbort);
  });
}
