import * as v from 'valibot';
import type { ResponseFormat } from '../../../machines/messages.ts';
import { SvcError } from '../../errors.ts';
import { given, wrong } from '../../runtime/contract/check.ts';
import { LOGPROBS_MAX } from '../../runtime/contract/inputs.ts';
import * as vocabulary from '../../runtime/contract/vocabulary.ts';
import {
  anything,
  flag,
  name,
  object,
  text,
  wholeFrom,
} from '../../runtime/contract/vocabulary.ts';
import type { RunInput } from '../../runtime/contract.ts';

/** What the requests of Ollama's API have in common. */

const number = v.number('must be a number.');
const whole = v.pipe(number, v.integer('must be a whole number.'));

/** A parameter that may only have the value with which it changes no answer. */
export function only(value: unknown, why: string) {
  const shown = JSON.stringify(value);
  return vocabulary.only([value], `is not supported here unless it is ${shown}: ${why}`);
}

/** Any value is right: it changes no answer. */
const ignored = v.optional(v.unknown());
const SAMPLING = 'the daemon has no such sampling.';

export const options = object({
  num_predict: v.nullish(whole),
  temperature: v.nullish(number),
  top_p: v.nullish(number),
  seed: v.nullish(whole),
  stop: v.nullish(v.array(text, 'must be a list of texts.')),
  presence_penalty: v.nullish(number),
  frequency_penalty: v.nullish(number),
  top_k: v.nullish(number),
  min_p: v.nullish(number),
  repeat_penalty: v.nullish(number),
  typical_p: only(1, SAMPLING),
  tfs_z: only(1, SAMPLING),
  mirostat: only(0, SAMPLING),
  /** All tokens of the answer count. */
  repeat_last_n: only(-1, 'the daemon counts all tokens of the answer.'),
  /** They mean something only with the ones above. */
  mirostat_tau: ignored,
  mirostat_eta: ignored,
  penalize_newline: ignored,
  /** The engine loads a model as its own settings say. A prompt that does not fit is refused. */
  num_ctx: ignored,
  num_batch: ignored,
  num_gpu: ignored,
  main_gpu: ignored,
  num_thread: ignored,
  num_keep: ignored,
  numa: ignored,
  low_vram: ignored,
  f16_kv: ignored,
  logits_all: ignored,
  vocab_only: ignored,
  embedding_only: ignored,
  use_mmap: ignored,
  use_mlock: ignored,
});

/** The fields that a conversation and a prompt share. */
export const shared = {
  model: name(),
  stream: v.nullish(flag),
  format: v.nullish(
    v.union([v.picklist(['json', '']), anything], 'must be json, or a JSON schema.'),
  ),
  options: v.nullish(options),
  /** Whether a model thinks is its own choice. With false, the answer leaves it out. */
  think: v.nullish(v.union([flag, text], 'must be true, false, or a level.')),
  logprobs: v.nullish(flag),
  top_logprobs: v.nullish(wholeFrom(0, LOGPROBS_MAX)),
  /** How long the model stays in memory after its work. */
  keep_alive: v.nullish(v.union([number, text], 'must be a number, or a text.')),
};

/**
 * Milliseconds of `keep_alive`: seconds as a number, or a text such as `5m` or `1h30m`. Less than
 * zero means for ever. Null: not given.
 */
export function keepAliveMs(sent: number | string | null | undefined): number | null {
  if (sent == null || sent === '') return null;
  if (typeof sent === 'number') return sent < 0 ? FOREVER_MS : bounded(sent * 1000);
  if (/^-?\d+(\.\d+)?$/.test(sent)) return keepAliveMs(Number(sent));
  if (sent.startsWith('-') && DURATION.test(sent.slice(1))) return FOREVER_MS;
  if (!DURATION.test(sent)) throw wrong('keep_alive', 'keep_alive must be a time such as 5m.');
  const parts = [...sent.matchAll(/(\d+(?:\.\d+)?)(ms|h|m|s)/g)];
  return bounded(
    parts.reduce((sum, [, count, unit]) => sum + Number(count) * (UNITS[unit ?? ''] ?? 0), 0),
  );
}

const DURATION = /^(\d+(\.\d+)?(ms|h|m|s))+$/;
const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };
const FOREVER_MS = 1e15;

function bounded(ms: number): number {
  return Math.min(FOREVER_MS, Math.round(ms));
}

type Shared = v.InferOutput<ReturnType<typeof object<typeof shared>>>;

/** The input of a run, except for its messages. */
export function inputOf(sent: Shared): RunInput {
  const { num_predict, seed, stop, ...rest } = sent.options ?? {};
  const { temperature, top_p, presence_penalty, frequency_penalty } = rest;
  const { top_k, min_p, repeat_penalty } = rest;
  return given({
    model: modelName(sent.model),
    ...{ temperature, top_p, presence_penalty, frequency_penalty },
    ...{ top_k, min_p, repeat_penalty },
    reasoning_effort: typeof sent.think === 'string' ? sent.think : null,
    // Zero and less mean no bound of the request.
    max_tokens: num_predict == null || num_predict < 1 ? null : num_predict,
    seed: seed == null || seed < 0 ? null : seed,
    stop: stop?.length === 0 ? null : stop,
    response_format: formatOf(sent.format),
    logprobs: sent.logprobs === true ? (sent.top_logprobs ?? 0) : null,
  }) as RunInput;
}

/** The name without the tag that Ollama's clients add to any name. */
export function modelName(name: string): string {
  return name.replace(/:latest$/, '');
}

function formatOf(format: Shared['format']): ResponseFormat | null {
  if (format == null || format === '') return null;
  return { type: 'json', name: null, schema: typeof format === 'string' ? null : format };
}

/** The names of a run's input, as this API calls them. */
const NAMES: Readonly<Record<string, string>> = {
  max_tokens: 'options.num_predict',
  temperature: 'options.temperature',
  top_p: 'options.top_p',
  presence_penalty: 'options.presence_penalty',
  frequency_penalty: 'options.frequency_penalty',
  top_k: 'options.top_k',
  min_p: 'options.min_p',
  repeat_penalty: 'options.repeat_penalty',
  reasoning_effort: 'think',
  seed: 'options.seed',
  stop: 'options.stop',
  response_format: 'format',
  texts: 'input',
};

/** An error about the input of the run, with the names of the request that was sent. */
export function inRequest(thrown: unknown, as: 'chat' | 'generate' = 'chat'): unknown {
  if (!(thrown instanceof SvcError) || thrown.param === null) return thrown;
  const { code, message, param, hint, details } = thrown;
  const named = as === 'generate' ? inGenerate(param) : inChat(param);
  return new SvcError(code, message.replaceAll(param, named), {
    ...{ param: named, hint, cause: thrown },
    ...(details === undefined ? {} : { details }),
  });
}

function inChat(param: string): string {
  const [, turn] = /^(messages\.\d+)\./.exec(param) ?? [];
  const [first = '', ...rest] = param.split('.');
  return turn ?? [NAMES[first] ?? first, ...rest].join('.');
}

/** The last message is the prompt, with its images after the text. */
function inGenerate(param: string): string {
  const [, place] = /^messages(?:\.\d+\.content\.(\d+))?/.exec(param) ?? [null];
  if (place === null) return inChat(param);
  return Number(place ?? 0) > 0 ? `images.${Number(place) - 1}` : 'prompt';
}
