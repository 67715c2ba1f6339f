import { type ExecFileOptions, execFile } from 'node:child_process';
import { oneLine } from '../../logs/plain.ts';

/** A third-party program that failed. The message has its name and its own words. */
export class ProgramFailure extends Error {
  readonly isMissing: boolean;

  constructor(program: string, { code, signal, stderr, message }: ExecError) {
    const name = program.split(/[\\/]/).at(-1) ?? program;
    const lines = (stderr ?? '').split('\n').filter((line) => line.trim() !== '');
    const last = lines.findLast((line) => !EMPTY_WORDS.test(line)) ?? lines.at(-1) ?? '';
    const said = last.trim().replace(new RegExp(`^${name.replace(/\W/g, '\\$&')}: `), '');
    const isMissing = code === 'ENOENT';
    super(
      oneLine(
        isMissing
          ? `${name} is not installed`
          : typeof code === 'string'
            ? `${name} could not be run (${code})`
            : said !== ''
              ? `${name} says: ${said}`
              : signal
                ? `${name} was ended by ${signal}`
                : code === undefined
                  ? message
                  : `${name} ended with the exit code ${code}`,
      ),
    );
    this.isMissing = isMissing;
  }
}

/** How tar ends each of its failures. The cause is before. */
const EMPTY_WORDS = /^tar: (Child returned|Error is not recoverable|Exiting with failure)/;

interface ExecError {
  code?: number | string | null;
  signal?: NodeJS.Signals | null;
  stderr?: string;
  message: string;
}

/**
 * Resolves with its output. Throws ProgramFailure, which each caller makes an error that says its
 * consequence.
 */
export function runProgram(
  program: string,
  words: readonly string[],
  options: ExecFileOptions = {},
  says: 'stdout' | 'both' = 'stdout',
): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(program, words, { ...options, encoding: 'utf8' }, (error, stdout, stderr) => {
      if (error === null) resolve(says === 'both' ? `${stdout}\n${stderr}` : stdout);
      else reject(new ProgramFailure(program, { ...error, message: error.message, stderr }));
    });
  });
}
