import { spawn, spawnSync } from 'node:child_process';
import type { Writable } from 'node:stream';
import { PROGRAM } from './svc.ts';

/**
 * The program with a terminal for its stdout and stderr. `script` makes the terminal; without
 * `script` such tests are skipped.
 */
export const hasTerminal =
  process.platform === 'linux' && spawnSync('script', ['-qec', 'true', '/dev/null']).status === 0;
if (!hasTerminal) console.log('skipped: no terminal can be made here');

export interface TerminalOutput {
  code: number | null;
  /** Everything written to the terminal by both streams, with its line breaks. */
  text: string;
}

const BOUND_MS = 120_000;

/** Types, and returns whether it is done. It hears what the terminal shows so far. */
type Typist = (typed: Writable, seen: string) => boolean;

export function onTerminal(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  type?: Typist,
): Promise<TerminalOutput> {
  return atTerminal(`exec ${commandOf(args)}`, env, type);
}

/** The command line of `svc` with these arguments. */
export function commandOf(args: readonly string[]): string {
  const words = [process.execPath, PROGRAM, ...args];
  return words.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ');
}

/** Any command line at a terminal. `COLUMNS` of the environment is the width of that. */
export function atTerminal(
  command: string,
  env: NodeJS.ProcessEnv,
  type?: Typist,
): Promise<TerminalOutput> {
  const wide = env.COLUMNS === undefined ? '' : `stty cols ${env.COLUMNS}; `;
  const child = spawn('script', ['-qefc', wide + command, '/dev/null'], {
    env: { ...env, TERM: 'xterm', SHELL: '/bin/sh' },
    stdio: [type === undefined ? 'ignore' : 'pipe', 'pipe', 'inherit'],
    timeout: BOUND_MS,
    killSignal: 'SIGKILL',
  });
  const chunks: Buffer[] = [];
  let typing = type;
  child.stdout?.on('data', (chunk: Buffer) => {
    chunks.push(chunk);
    if (child.stdin !== null && typing?.(child.stdin, String(Buffer.concat(chunks))) === true)
      typing = undefined;
  });
  return new Promise((resolve) => {
    child.on('close', (code) =>
      resolve({ code, text: Buffer.concat(chunks).toString('utf8').replaceAll('\r\n', '\n') }),
    );
  });
}

/** Runs a command at a terminal. Types a line when the terminal shows the question. */
export function typeAt(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  question: string,
  line: string,
): Promise<TerminalOutput> {
  return onTerminal(args, env, (typed, seen) => {
    if (!seen.includes(question)) return false;
    typed.write(`${line}\r`);
    return true;
  });
}

/** What is typed when the terminal shows a text for the first time behind the one before. */
export type Script = readonly [shows: string, types: string][];

/** Types a script at a terminal, for `onTerminal`. */
export function playing(script: Script): (typed: Writable, seen: string) => boolean {
  let [step, from] = [0, 0];
  return (typed, seen) => {
    for (; step < script.length; step += 1) {
      const [shows, types] = script[step] ?? ['', ''];
      const at = seen.indexOf(shows, from);
      if (at < 0) return false;
      from = at + shows.length;
      typed.write(types);
    }
    return true;
  };
}
