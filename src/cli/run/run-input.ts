import { fstatSync, readFileSync } from 'node:fs';
import { numberFields, textFields } from '../../contract/options.ts';
import { RECOVERIES } from '../../contract/words.ts';
import { SvcError } from '../../errors.ts';
import type { Paths } from '../../home/paths.ts';
import { limitSpecs } from '../../limits.ts';
import type { Flags } from '../terminal/context.ts';
import { absoluteModel } from '../terminal/parse/absolute-model.ts';
import {
  choiceFlag,
  listFlag,
  numberFlag,
  secondsFlag,
  textFlag,
  wholeFlag,
} from '../terminal/parse/flag-values.ts';
import { readStdin } from '../terminal/parse/read-stdin.ts';

/** The request of a run without its prompt. The daemon has defaults for omitted fields. */
export function readRunInput(flags: Flags): Record<string, unknown> {
  const models = listFlag(flags, 'model')?.map(absoluteModel);
  const fields = {
    provider: textFlag(flags, 'provider'),
    model: models?.length === 1 ? models[0] : models,
    cloud: flags.cloud === true ? true : undefined,
    system: readSystem(flags),
    ...readNumbers(flags),
    ...Object.fromEntries(
      textFields.map(({ name, flag, many }) => [name, (many ? listFlag : textFlag)(flags, flag)]),
    ),
    raw: flags.raw === true ? true : undefined,
    tool_servers: textFlag(flags, 'tools')?.split(','),
    response_format: choiceFlag(flags, 'format', FORMATS) === 'json' ? JSON_FORMAT : undefined,
    ...readConversation(flags),
    recovery: choiceFlag(flags, 'recovery', RECOVERIES),
    idempotency_key: textFlag(flags, 'idempotency-key'),
    client: textFlag(flags, 'client') ?? `command line ${process.ppid}`,
    cancel_on_disconnect: flags['cancel-on-disconnect'] === true ? true : undefined,
    timeout_ms: secondsFlag(flags, 'timeout', { min: 0.001, max: limitSpecs.run_ms.max / 1000 }),
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

const FORMATS = ['text', 'json'] as const;
const JSON_FORMAT = { type: 'json' };

export function readNumbers(flags: Flags): Record<string, number | undefined> {
  return Object.fromEntries(
    Object.entries(numberFields).map(([name, { flag, whole, min, max }]) => [
      name,
      (whole ? wholeFlag : numberFlag)(flags, flag, { min, max }),
    ]),
  );
}

/** The request with the content of its files. Throws usage, prompt_too_large. */
export async function withFiles<T extends Record<string, unknown> & { prompt: string }>(
  input: T,
  files: readonly string[] | undefined,
  paths: Paths,
): Promise<T | Record<string, unknown>> {
  if (files === undefined) return input;
  const { withFiles, readAttachments } = await import('./attached.ts');
  const left = (await configuredBytes(paths)) - Buffer.byteLength(input.prompt);
  return withFiles(input, await readAttachments(files, Math.max(0, left)));
}

/** The form of the answer that --schema asks for. Throws usage, prompt_too_large. */
export async function readFormat(
  flags: Flags,
  paths: Paths,
): Promise<{ response_format?: Record<string, unknown> }> {
  const schema = textFlag(flags, 'schema');
  if (schema === undefined) return {};
  if (flags.format === 'text')
    throw new SvcError('usage', '--schema and --format text exclude each other.');
  const { readSchema } = await import('./attached.ts');
  const bytes_max = await configuredBytes(paths);
  return { response_format: { ...JSON_FORMAT, schema: await readSchema(schema, bytes_max) } };
}

/** Which conversation the run continues, and the folder in which the next one finds it. */
function readConversation(flags: Flags): {
  conversation?: string | undefined;
  origin?: string | undefined;
} {
  const named = textFlag(flags, 'conversation');
  const last = flags.continue === true;
  if (last && named !== undefined)
    throw new SvcError('usage', '--continue and --conversation exclude each other.', {
      param: 'conversation',
    });
  return { conversation: last ? 'last' : named, origin: presentFolder() };
}

/** Undefined if the folder was deleted, or its path is too long for a request. */
function presentFolder(): string | undefined {
  try {
    const folder = process.cwd();
    return PLAIN_PATH.test(folder) ? folder : undefined;
  } catch {
    return undefined;
  }
}

/** An origin that the daemon accepts: no control characters, and no broken text. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: it refuses them
const PLAIN_PATH = /^[^\u0000-\u001f\u007f-\u009f\ufffd]{1,4096}$/;

function readSystem(flags: Flags): string | undefined {
  const { system } = flags;
  if (typeof system !== 'string' || system === '') return undefined;
  if (!isArgumentText(system))
    throw new SvcError('prompt_not_text', 'The system text is not UTF-8 text.', {
      param: 'system',
    });
  return system;
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
 * The prompt: the words of the command line, then the text from stdin, with an empty line between.
 *
 * 1. stdin is read if it is a pipe, a file or a socket; a terminal only for `-` alone.
 * 2. Reading ends above the limit. The final line break of stdin is removed.
 * 3. It may be empty if it is `optional`, because the files are the question.
 * Throws prompt_missing, prompt_not_text, prompt_too_large.
 */
export async function readPrompt(
  words: readonly string[],
  paths: Paths,
  { optional = false } = {},
): Promise<string> {
  const isDash = words.length === 1 && words[0] === '-';
  const argued = isDash ? '' : words.join(' ');
  const bytes_max = await bytesMax(paths, Buffer.byteLength(argued));
  if (Buffer.byteLength(argued) > bytes_max) throw tooLargeError(bytes_max);
  const reads = isDash || isPiped();
  const piped = reads
    ? withoutLastBreak(toText(await readStdin(bytes_max, () => tooLargeError(bytes_max))))
    : '';
  const prompt = [argued, piped].filter((part) => part !== '').join('\n\n');
  if (prompt.includes('\0'))
    throw new SvcError('prompt_not_text', 'The prompt contains NUL bytes.');
  if (!isArgumentText(argued))
    throw new SvcError('prompt_not_text', 'The prompt is not UTF-8 text.');
  if (prompt.trim() === '' && !optional) throw new SvcError('prompt_missing');
  if (Buffer.byteLength(prompt) > bytes_max) throw tooLargeError(bytes_max);
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

async function bytesMax(paths: Paths, wanted: number): Promise<number> {
  const { value } = limitSpecs.prompt_bytes;
  return wanted <= value && !isPiped() ? value : configuredBytes(paths);
}

/** The bound of a prompt. The daemon reports an unreadable configuration, not this command. */
export async function configuredBytes(paths: Paths): Promise<number> {
  try {
    const { loadConfig } = await import('../../config/config.ts');
    return loadConfig(paths.config).limits.prompt_bytes;
  } catch {
    return limitSpecs.prompt_bytes.value;
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

function tooLargeError(bytes_max: number): SvcError {
  return new SvcError('prompt_too_large', `The prompt has more than ${bytes_max} bytes.`);
}
