import { RECOVERIES } from '../../config/config.ts';
import { SvcError } from '../../errors.ts';
import { type Limits, limitSpecs } from '../../limits.ts';
import type { RunInput } from '../contract.ts';
import {
  type Fields,
  hasLoneSurrogate,
  readChoice,
  readFields,
  readFlag,
  readName,
  readNumber,
  wrong,
} from '../fields.ts';

/** Longest name of a client, in characters. */
export const CLIENT_MAX = 64;

/** The fields of a run as every transport takes them. */
export const RUN_FIELDS = [
  'prompt',
  'system',
  'provider',
  'model',
  'cloud',
  'max_tokens',
  'temperature',
  'seed',
  'timeout_ms',
  'idempotency_key',
  'recovery',
  'client',
  'cancel_on_disconnect',
] as const;

/**
 * What was sent, as the input of a run; a field that is null counts as not given. Says nothing about which providers
 * there are. Throws invalid_request (with `param`), prompt_missing, prompt_not_text, prompt_too_large.
 */
export function parseRunInput(value: unknown, limits: Limits): RunInput {
  const fields = readFields(value, RUN_FIELDS);
  const prompt = readText(fields, 'prompt') ?? '';
  const system = readText(fields, 'system');
  if (prompt.trim() === '')
    throw new SvcError('prompt_missing', 'The prompt is missing, or is empty.', {
      param: 'prompt',
      hint: 'Send a text in the field prompt.',
    });
  const bytes = Buffer.byteLength(prompt) + Buffer.byteLength(system ?? '');
  if (bytes > limits.prompt_bytes)
    throw new SvcError(
      'prompt_too_large',
      `The prompt has ${bytes} bytes; at most ${limits.prompt_bytes} are taken.`,
      { param: 'prompt' },
    );
  const rest = {
    system,
    provider: readName(fields, 'provider'),
    model: readName(fields, 'model'),
    cloud: readFlag(fields, 'cloud'),
    max_tokens: readNumber(fields, 'max_tokens', {
      min: 1,
      max: limitSpecs.output_tokens.max,
      whole: true,
    }),
    temperature: readNumber(fields, 'temperature', { min: 0, max: 2, whole: false }),
    seed: readNumber(fields, 'seed', { min: 0, max: 2 ** 32 - 1, whole: true }),
    timeout_ms: readNumber(fields, 'timeout_ms', {
      min: 1,
      max: limitSpecs.run_ms.max,
      whole: true,
    }),
    idempotency_key: readKey(fields),
    recovery: readChoice(fields, 'recovery', RECOVERIES),
    client: readName(fields, 'client', CLIENT_MAX),
    cancel_on_disconnect: readFlag(fields, 'cancel_on_disconnect'),
  };
  return { prompt, ...given(rest) };
}

/** A text that may be long; null where it is not given. */
function readText(fields: Fields, name: string): string | null {
  const value = fields[name] ?? null;
  if (value === null) return null;
  if (typeof value !== 'string') throw wrong(name, `${name} must be a text.`);
  if (value.includes('\0') || hasLoneSurrogate(value))
    throw new SvcError('prompt_not_text', `${name} holds NUL or is not well-formed text.`, {
      param: name,
    });
  return value;
}

function readKey(fields: Fields): string | null {
  const value = fields.idempotency_key ?? null;
  if (value === null || (typeof value === 'string' && /^[\x21-\x7e]{1,255}$/.test(value)))
    return value;
  throw wrong('idempotency_key', 'idempotency_key must be 1 to 255 visible ASCII characters.');
}

/** Without the fields that were not given. */
function given<T extends object>(fields: T): { [K in keyof T]?: NonNullable<T[K]> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null)) as {
    [K in keyof T]?: NonNullable<T[K]>;
  };
}
