import * as v from 'valibot';
import { RECOVERIES } from '../../config/settings.ts';
import { SvcError } from '../../errors.ts';
import { type Limits, limitSpecs } from '../../limits.ts';
import { checkGiven, type Given } from './check.ts';
import { count, flag, name, numberFrom, object, oneOf, text, wholeFrom } from './vocabulary.ts';

/** What a request holds. Every transport takes the same fields. A field that is null counts as not given. */

/** Longest name of a client, in characters. */
export const CLIENT_MAX = 64;

export const runInput = object({
  prompt: text,
  system: v.nullish(text),
  provider: v.nullish(name()),
  model: v.nullish(name()),
  cloud: v.nullish(flag),
  max_tokens: v.nullish(wholeFrom(1, limitSpecs.output_tokens.max)),
  temperature: v.nullish(numberFrom(0, 2)),
  seed: v.nullish(wholeFrom(0, 2 ** 32 - 1)),
  timeout_ms: v.nullish(wholeFrom(1, limitSpecs.run_ms.max)),
  idempotency_key: v.nullish(
    v.pipe(text, v.regex(/^[\x21-\x7e]{1,255}$/, 'must be 1 to 255 visible ASCII characters.')),
  ),
  /** What happens to the run when it is cut off. The default is the configuration's. */
  recovery: v.nullish(oneOf(RECOVERIES)),
  /** The client's name for fair queueing. The default is the transport's. */
  client: v.nullish(name(CLIENT_MAX)),
  /** The transport cancels the run when the client that started it disconnects. */
  cancel_on_disconnect: v.nullish(flag),
});
export type RunInput = v.InferOutput<typeof runInput>;

/** Throws invalid_request (with `param`), prompt_missing, prompt_not_text, prompt_too_large. */
export function parseRunInput(value: unknown, limits: Pick<Limits, 'prompt_bytes'>): RunInput {
  const input = checkGiven(runInput, withPrompt(value));
  checkText('prompt', input.prompt);
  checkText('system', input.system);
  if (input.prompt.trim() === '')
    throw new SvcError('prompt_missing', 'The prompt is missing, or is empty.', {
      param: 'prompt',
      hint: 'Send a text in the field prompt.',
    });
  const bytes = Buffer.byteLength(input.prompt) + Buffer.byteLength(input.system ?? '');
  if (bytes > limits.prompt_bytes)
    throw new SvcError(
      'prompt_too_large',
      `The prompt has ${bytes} bytes; at most ${limits.prompt_bytes} are taken.`,
      { param: 'prompt' },
    );
  return input;
}

export const pullInput = object({
  reference: name(4096),
  name: v.nullish(name(255)),
  sha256: v.nullish(name(128)),
});

export const lifecycleInput = object({
  type: name(80),
  mode: v.nullish(oneOf(['drain', 'force'])),
  timeout_ms: v.nullish(wholeFrom(0, limitSpecs.drain_ms.max)),
});

/** The machine says which events there are. */
export function parseLifecycleInput(value: unknown): LifecycleInput {
  return checkGiven(lifecycleInput, value);
}
export type LifecycleInput = v.InferOutput<typeof lifecycleInput>;

/** A browser signs in with one of them. */
export const sessionInput = object({
  ticket: v.nullish(name(512), null),
  token: v.nullish(name(512), null),
});

/** Which page of the runs. */
export const runListInput = {
  limit: v.nullish(count),
  /** The page starts with the run before this one. */
  before: v.nullish(text),
  state: v.nullish(text),
  provider: v.nullish(text),
  /** `short`: the beginning of the texts; a run that was cut is `shortened`. */
  texts: v.nullish(oneOf(['whole', 'short'])),
};
export type RunListQuery = Given<v.InferOutput<v.ObjectSchema<typeof runListInput, undefined>>>;

/** The settings of a provider, which `readProvider` checks as it checks those of the configuration. */
export const providerInput = v.looseObject({ id: name() });
export type ProviderInput = v.InferOutput<typeof providerInput>;

/** A missing prompt gets a specific error. */
function withPrompt(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return { ...value, prompt: (value as { prompt?: unknown }).prompt ?? '' };
}

/** NUL and half a surrogate pair cannot travel as UTF-8 text. */
function checkText(param: string, value = ''): void {
  if (!value.includes('\0') && value.isWellFormed()) return;
  throw new SvcError('prompt_not_text', `${param} holds NUL or is not well-formed text.`, {
    param,
  });
}
