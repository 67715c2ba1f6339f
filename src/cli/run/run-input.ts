import { existsSync, fstatSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { SvcError } from '../../errors.ts';
import type { Paths } from '../../home/paths.ts';
import { limitSpecs } from '../../limits.ts';
import type { Flags } from '../context.ts';
import { listFlag, numberFlag, secondsFlag, textFlag, wholeFlag } from '../parse/flag-values.ts';
import { readStdin } from '../parse/read-stdin.ts';

/** The request of a run without its prompt. The daemon has defaults for omitted fields. */
export function readRunInput(flags: Flags): Record<string, unknown> {
  const models = listFlag(flags, 'model')?.map(absoluteModel);
  const fields = {
    provider: textFlag(flags, 'provider'),
    model: models?.length === 1 ? models[0] : models,
    cloud: flags.cloud === true ? true : undefined,
    system: readSystem(flags),
    max_tokens: wholeFlag(flags, 'max-tokens', { min: 1, max: limitSpecs.output_tokens.max }),
    temperature: numberFlag(flags, 'temperature', { min: 0, max: 2 }),
    seed: wholeFlag(flags, 'seed', { min: 0, max: 2 ** 32 - 1 }),
    recovery: textFlag(flags, 'recovery'),
    idempotency_key: textFlag(flags, 'idempotency-key'),
    client: textFlag(flags, 'client') ?? `command line ${process.ppid}`,
    cancel_on_disconnect: flags['cancel-on-disconnect'] === true ? true : undefined,
    timeout_ms: secondsFlag(flags, 'timeout', { min: 0.001, max: limitSpecs.run_ms.max / 1000 }),
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

function readSystem(flags: Flags): string | undefined {
  const { system } = flags;
  if (typeof system !== 'string' || system === '') return undefined;
  if (!isArgumentText(system))
    throw new SvcError('prompt_not_text', 'The system text is not UTF-8 text.', {
      param: 'system',
    });
  return system;
}

/**
 * The daemon has another working folder, so a path is made absolute. A bare name may be in the
 * models folder.
 */
function absoluteModel(model: string): string {
  const isPath = /^\.{1,2}[\\/]/.test(model) || (model.endsWith('.gguf') && existsSync(model));
  return isPath ? resolve(model) : model;
}

const REPLACEMENT = '\u{fffd}';

/**
 * Whether a command line argument was UTF-8. Node replaces invalid bytes by replacement characters.
 * Only the raw bytes, where the OS shows them, distinguish these from characters of the user.
 */
function isArgumentText(argument: string): boolean {
  if (!argument.includes(REPLACEMENT)) return true;
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(readFileSync('/proc/self/cmdline'));
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ERR_ENCODING_INVALID_ENCODED_DATA';
  }
}

/**
 * The prompt: the argument, then the text from stdin, with an empty line between.
 *
 * 1. stdin is read if it is a pipe, a file or a socket; a terminal only for `-`.
 * 2. Reading ends above the limit. The final line break of stdin is removed.
 * Throws prompt_missing, prompt_not_text, prompt_too_large.
 */
export async function readPrompt(argument: string | undefined, paths: Paths): Promise<string> {
  const argued = argument === '-' ? '' : (argument ?? '');
  const bytes_max = await bytesMax(paths, Buffer.byteLength(argued));
  if (Buffer.byteLength(argued) > bytes_max) throw tooLarge(bytes_max);
  const reads = argument === '-' || isPiped();
  const piped = reads
    ? withoutLastBreak(toText(await readStdin(bytes_max, () => tooLarge(bytes_max))))
    : '';
  const prompt = [argued, piped].filter((part) => part !== '').join('\n\n');
  if (prompt.includes('\0'))
    throw new SvcError('prompt_not_text', 'The prompt contains NUL bytes.');
  if (!isArgumentText(argued))
    throw new SvcError('prompt_not_text', 'The prompt is not UTF-8 text.');
  if (prompt.trim() === '') throw new SvcError('prompt_missing');
  if (Buffer.byteLength(prompt) > bytes_max) throw tooLarge(bytes_max);
  return prompt;
}

function isPiped(): boolean {
  try {
    const stdin = fstatSync(0);
    return stdin.isFIFO() || stdin.isFile() || stdin.isSocket();
  } catch {
    return false;
  }
}

/** The limit of the daemon. The daemon reports an unreadable configuration, not this command. */
async function bytesMax(paths: Paths, wanted: number): Promise<number> {
  const { value } = limitSpecs.prompt_bytes;
  if (wanted <= value && !isPiped()) return value;
  try {
    const { loadConfig } = await import('../../config/config.ts');
    return loadConfig(paths.config).limits.prompt_bytes;
  } catch {
    return value;
  }
}

function toText(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new SvcError('prompt_not_text', 'The text from stdin is not UTF-8.', { cause });
  }
}

function withoutLastBreak(text: string): string {
  return text.replace(/\r?\n$/, '');
}

function tooLarge(bytes_max: number): SvcError {
  return new SvcError('prompt_too_large', `The prompt has more than ${bytes_max} bytes.`);
}
