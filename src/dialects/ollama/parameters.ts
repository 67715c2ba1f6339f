import * as v from 'valibot';
import { invalidRequest, withoutNull } from '../../contract/check.ts';
import type { RunInput } from '../../contract/contract.ts';
import type { ResponseFormat } from '../../contract/messages/parts.ts';
import { fromOllama, optionsWith, options as table } from '../../contract/options.ts';
import * as vocabulary from '../../contract/vocabulary.ts';
import { anything, flag, name, object, text, wholeFrom } from '../../contract/vocabulary.ts';
import { SvcError } from '../../errors.ts';
import { withField } from '../renamed.ts';

/** Parameters that the requests of Ollama's API share. */

const number = v.number('must be a number.');
const whole = v.pipe(number, v.integer('must be a whole number.'));

/** A parameter that may only have the value with which it changes no answer. */
export function fixedValue(value: unknown, why: string) {
  const shown = JSON.stringify(value);
  return vocabulary.oneOfOrNull([value], `is not supported here unless it is ${shown}: ${why}`);
}

/** The options that Ollama has too, under its names. */
const NAMES = optionsWith('ollama');
type Named = {
  [N in (typeof NAMES)[number] as (typeof table)[N]['ollama']]: N extends 'stop'
    ? typeof texts
    : typeof number;
};
const texts = v.array(text, 'must be a list of texts.');

/** All other options of Ollama are left out, as fields that svc does not know. */
export const options = object(
  Object.fromEntries(
    NAMES.map((name) => {
      const { type, ollama } = table[name];
      return [ollama, v.nullish(type === 'form' ? texts : type === 'whole' ? whole : number)];
    }),
  ) as { [K in keyof Named]: v.NullishSchema<Named[K], undefined> },
);

/** The fields that a conversation and a prompt share. */
export const shared = {
  model: name(),
  stream: v.nullish(flag),
  format: v.nullish(v.union([v.literal('json'), anything], 'must be json, or a JSON schema.')),
  options: v.nullish(options),
  /** Whether a model thinks is its own choice. With false, the answer leaves it out. */
  think: v.nullish(v.union([flag, text], 'must be true, false, or a level.')),
  logprobs: v.nullish(flag),
  top_logprobs: v.nullish(wholeFrom(0, table.logprobs.max)),
  /** How long the model stays in memory after its work. */
  keep_alive: v.nullish(v.union([number, text], 'must be a number, or a text.')),
};

/**
 * Milliseconds of `keep_alive`: seconds as a number, or a text such as `5m` or `1h30m`. Less than
 * zero means for ever. Null: not given.
 */
export function keepAliveMs(sent: number | string | null | undefined): number | null {
  if (sent == null) return null;
  if (typeof sent === 'number') return sent < 0 ? FOREVER_MS : capMs(sent * 1000);
  if (/^-?\d+(\.\d+)?$/.test(sent)) return keepAliveMs(Number(sent));
  if (sent.startsWith('-') && DURATION.test(sent.slice(1))) return FOREVER_MS;
  if (!DURATION.test(sent))
    throw invalidRequest('keep_alive', 'keep_alive must be a time such as 5m.');
  const parts = [...sent.matchAll(/(\d+(?:\.\d+)?)(ms|h|m|s)/g)];
  return capMs(
    parts.reduce((sum, [, count, unit]) => sum + Number(count) * (UNITS[unit ?? ''] ?? 0), 0),
  );
}

const DURATION = /^(\d+(\.\d+)?(ms|h|m|s))+$/;
const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };
const FOREVER_MS = 1e15;

function capMs(ms: number): number {
  return Math.min(FOREVER_MS, Math.round(ms));
}

type Shared = v.InferOutput<ReturnType<typeof object<typeof shared>>>;

/** The input of a run, except for its messages. Only a local model has a context to choose. */
export function inputOf(sent: Shared, isLocal: boolean): RunInput {
  return withoutNull({
    ...optionsOf(sent.options ?? {}, isLocal),
    model: sent.model,
    reasoning_effort: typeof sent.think === 'string' ? sent.think : null,
    response_format: formatOf(sent.format),
    logprobs: sent.logprobs === true ? (sent.top_logprobs ?? 0) : null,
  }) as RunInput;
}

export function optionsOf(sent: v.InferOutput<typeof options>, isLocal: boolean): object {
  const own = NAMES.filter((name) => isLocal || name !== 'context_tokens').map((name) => {
    const value = sent[table[name].ollama] ?? null;
    const taken = value === null ? null : fromOllama(name, value);
    // Programs ask for any context. The others are refused later.
    const untaken = name === 'context_tokens' ? null : value;
    return [name, taken === undefined ? untaken : taken];
  });
  return withoutNull(Object.fromEntries(own));
}

function formatOf(format: Shared['format']): ResponseFormat | null {
  if (format == null) return null;
  return { type: 'json', name: null, schema: typeof format === 'string' ? null : format };
}

/** The names of a run's input, as this API calls them. */
const PARAMS: Readonly<Record<string, string>> = {
  ...Object.fromEntries(NAMES.map((name) => [name, `options.${table[name].ollama}`])),
  reasoning_effort: 'think',
  response_format: 'format',
  texts: 'input',
};

/** An error about the input of the run, with the names of the request that was sent. */
export function toRequestError(thrown: unknown, as: 'chat' | 'generate' = 'chat'): unknown {
  if (!(thrown instanceof SvcError) || thrown.param === null) return thrown;
  const { param } = thrown;
  return withField(thrown, as === 'generate' ? inGenerate(param) : inChat(param));
}

function inChat(param: string): string {
  const [, turn] = /^(messages\.\d+)\./.exec(param) ?? [];
  const [first = '', ...rest] = param.split('.');
  return turn ?? [PARAMS[first] ?? first, ...rest].join('.');
}

/** The last message is the prompt, with its images after the text. */
function inGenerate(param: string): string {
  const found = /^messages(?:\.\d+\.content\.(\d+))?/.exec(param);
  if (found === null) return inChat(param);
  const place = Number(found[1] ?? 0);
  return place > 0 ? `images.${place - 1}` : 'prompt';
}
