import { limitSpecs } from '../limits.ts';
import type { ResponseFormat, Tool, ToolChoice } from './messages/parts.ts';

/**
 * The options of a request, beside the messages and the target: one row each. The command line,
 * presets, the contract, the third-party APIs, the providers, the log, the record, `runtime.proto`
 * and the documentation read it.
 */
export interface Option {
  /** `form`: its schema is in `messages.ts`. */
  type: 'whole' | 'number' | 'flag' | 'word' | 'form';
  min?: number;
  max?: number;
  words?: readonly string[];
  /** What it does, as a sentence. Help and documents have it. */
  summary: string;
  /** Its flag on the command line, and its value in help. Presets have a number with a flag. */
  flag?: readonly [name: string, value: string];
  /** Its value is a list of texts, and the flag can be given again. */
  many?: true;
  /** Its numbers in RunRequest and RunRecord of `runtime.proto`. One only: no record shows it. */
  proto: readonly [request: number, record?: number];
  /** The requests for chats, responses and completions have it by this name. */
  openai?: true;
  /** Its name among the options of Ollama. */
  ollama?: string;
  /** Its name in the AI SDK. */
  sdk?: string;
  /** Who takes it behind OpenAI's API: `neighbours` are the servers that are not OpenAI's. */
  compatible: 'all' | 'neighbours' | 'none';
  /** The value that changes nothing. It is not sent, so no provider must know it. */
  neutral?: unknown;
  /** The substitute for a provider without this option: the value of another option, by number. */
  instead?: { option: string; upTo: readonly (readonly [most: number, value: string])[] };
  /** A larger number than the largest means the largest. */
  capped?: true;
}

const { output_tokens, repetition_tokens, engine_context_tokens: context } = limitSpecs;

export const options = {
  tools: {
    type: 'form',
    summary: 'The tools that the model may call.',
    proto: [4, 9],
    sdk: 'tools',
    compatible: 'all',
  },
  tool_choice: {
    type: 'form',
    summary: 'Which tool the model calls. The default is auto.',
    proto: [5, 10],
    sdk: 'toolChoice',
    compatible: 'all',
  },
  response_format: {
    type: 'form',
    summary: 'The form of the answer. The default is free text.',
    proto: [6, 11],
    sdk: 'responseFormat',
    compatible: 'all',
  },
  regex: {
    type: 'form',
    summary: 'The text of the answer as a whole is one of this regular expression.',
    flag: ['regex', '<expression>'],
    proto: [48, 70],
    openai: true,
    compatible: 'none',
  },
  choice: {
    type: 'form',
    summary: 'The text of the answer is one of these.',
    flag: ['choice', '<text>'],
    many: true,
    proto: [49, 71],
    openai: true,
    compatible: 'none',
  },
  grammar: {
    type: 'form',
    summary: 'The text of the answer is one of this grammar, in the notation of llama.cpp (GBNF).',
    flag: ['grammar', '<gbnf>'],
    proto: [50, 72],
    openai: true,
    compatible: 'none',
  },
  max_tokens: {
    type: 'whole',
    min: 1,
    max: output_tokens.max,
    summary: 'Longest answer, in tokens.',
    flag: ['max-tokens', '<n>'],
    proto: [11],
    openai: true,
    ollama: 'num_predict',
    sdk: 'maxOutputTokens',
    compatible: 'all',
    // No context has room for more.
    neutral: output_tokens.max,
    capped: true,
  },
  stop: {
    type: 'form',
    summary: 'The answer ends before this text.',
    flag: ['stop', '<text>'],
    many: true,
    proto: [7],
    ollama: 'stop',
    sdk: 'stopSequences',
    compatible: 'all',
  },
  temperature: {
    type: 'number',
    min: 0,
    max: 2,
    summary: 'Sampling temperature from 0 to 2; 0 always takes the likeliest token.',
    flag: ['temperature', '<t>'],
    proto: [12],
    openai: true,
    ollama: 'temperature',
    sdk: 'temperature',
    compatible: 'all',
  },
  top_p: {
    type: 'number',
    min: 0,
    max: 1,
    summary: 'Draw only from the likeliest tokens that together have this probability.',
    flag: ['top-p', '<p>'],
    proto: [13],
    openai: true,
    ollama: 'top_p',
    sdk: 'topP',
    compatible: 'all',
  },
  top_k: {
    type: 'whole',
    min: 0,
    /** More than the vocabulary of any model. */
    max: 1_000_000,
    summary: 'Draw only from this many of the likeliest tokens; 0: from all.',
    flag: ['top-k', '<n>'],
    proto: [26, 34],
    openai: true,
    ollama: 'top_k',
    sdk: 'topK',
    compatible: 'neighbours',
  },
  min_p: {
    type: 'number',
    min: 0,
    max: 1,
    summary: 'Draw only tokens of at least this part of the highest probability.',
    flag: ['min-p', '<p>'],
    proto: [27, 35],
    openai: true,
    ollama: 'min_p',
    compatible: 'neighbours',
  },
  typical_p: {
    type: 'number',
    min: 0,
    max: 1,
    summary: 'Draw only from the tokens that are about as likely as expected; 1: from all.',
    flag: ['typical-p', '<p>'],
    proto: [36, 47],
    openai: true,
    compatible: 'neighbours',
    neutral: 1,
  },
  top_n_sigma: {
    type: 'number',
    min: 0,
    max: 100,
    summary:
      'Draw only tokens whose odds are within so many standard deviations of the highest; ' +
      '0: from all.',
    flag: ['top-n-sigma', '<x>'],
    proto: [42, 54],
    openai: true,
    compatible: 'neighbours',
    neutral: 0,
  },
  xtc_probability: {
    type: 'number',
    min: 0,
    max: 1,
    summary: 'How often the likeliest tokens are left out, but for the last of them.',
    flag: ['xtc-probability', '<p>'],
    proto: [43, 55],
    openai: true,
    compatible: 'neighbours',
    neutral: 0,
  },
  xtc_threshold: {
    type: 'number',
    min: 0,
    max: 1,
    summary: 'With xtc_probability: a token of this probability is one of the likeliest.',
    flag: ['xtc-threshold', '<p>'],
    proto: [44, 56],
    openai: true,
    compatible: 'neighbours',
  },
  dynatemp_range: {
    type: 'number',
    min: 0,
    max: 2,
    summary: 'The temperature is so much lower where the model is sure, and higher where not.',
    flag: ['dynatemp-range', '<t>'],
    proto: [45, 57],
    openai: true,
    compatible: 'neighbours',
    neutral: 0,
  },
  dynatemp_exponent: {
    type: 'number',
    min: 0,
    max: 10,
    summary: 'With dynatemp_range: above 1, only where the model is hardly sure it is higher.',
    flag: ['dynatemp-exponent', '<x>'],
    proto: [46, 58],
    openai: true,
    compatible: 'neighbours',
    neutral: 1,
  },
  presence_penalty: {
    type: 'number',
    min: -2,
    max: 2,
    summary: 'Above 0, tokens that the answer has already become less likely.',
    proto: [14],
    openai: true,
    ollama: 'presence_penalty',
    sdk: 'presencePenalty',
    compatible: 'all',
  },
  frequency_penalty: {
    type: 'number',
    min: -2,
    max: 2,
    summary: 'Above 0, each time that the answer has a token makes it less likely.',
    proto: [15],
    openai: true,
    ollama: 'frequency_penalty',
    sdk: 'frequencyPenalty',
    compatible: 'all',
  },
  repeat_penalty: {
    type: 'number',
    min: 0.1,
    max: 10,
    summary: 'Above 1, tokens that the answer has already become less likely.',
    flag: ['repeat-penalty', '<x>'],
    proto: [28, 36],
    openai: true,
    ollama: 'repeat_penalty',
    // Servers have different names for it, and ignore the others.
    compatible: 'none',
    neutral: 1,
  },
  dry_multiplier: {
    type: 'number',
    min: 0,
    max: 10,
    summary: 'Above 0, tokens that would repeat a part of the answer become less likely.',
    flag: ['dry-multiplier', '<x>'],
    proto: [37, 48],
    openai: true,
    compatible: 'neighbours',
    neutral: 0,
  },
  logit_bias: {
    type: 'form',
    summary:
      'Ids of tokens of the model, and what is added to their odds: -100 bans a token, 100 all ' +
      'but forces it.',
    proto: [41, 53],
    openai: true,
    compatible: 'all',
  },
  lora: {
    type: 'form',
    summary:
      'Ids of LoRA adapters of a local model, and how much of each counts. One that is not named ' +
      'does not count.',
    proto: [47, 59],
    openai: true,
    compatible: 'none',
  },
  repetition_tokens: {
    type: 'whole',
    min: repetition_tokens.min,
    max: repetition_tokens.max,
    summary:
      'An answer of a local model ends when its last tokens, so many, are one sequence again ' +
      'and again; 0: it continues.',
    flag: ['repetition-tokens', '<n>'],
    proto: [40, 52],
    openai: true,
    compatible: 'none',
    neutral: 0,
  },
  seed: {
    type: 'whole',
    min: 0,
    max: 2 ** 32 - 1,
    summary: 'Sampling seed: the same seed gives the same answer on the same machine.',
    flag: ['seed', '<n>'],
    proto: [17],
    ollama: 'seed',
    sdk: 'seed',
    compatible: 'all',
  },
  context_tokens: {
    type: 'whole',
    min: context.min,
    max: context.max,
    summary:
      'Context of a local model: prompt and answer together have room for so many tokens, ' +
      'as far as the model allows.',
    flag: ['context', '<tokens>'],
    proto: [34, 44],
    ollama: 'num_ctx',
    compatible: 'none',
  },
  logprobs: {
    type: 'whole',
    min: 0,
    max: 20,
    summary: 'How many of the likeliest tokens to report at each position.',
    proto: [16],
    compatible: 'all',
  },
  reasoning_effort: {
    type: 'word',
    words: ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'],
    summary: 'How long the model may reason before it answers.',
    proto: [24, 32],
    sdk: 'reasoning',
    compatible: 'all',
  },
  reasoning_budget_tokens: {
    type: 'whole',
    min: 0,
    max: output_tokens.max,
    summary:
      'Most tokens of reasoning of a local model: then it must answer. Providers without such a ' +
      'number get the effort that is nearest.',
    flag: ['reasoning-budget', '<tokens>'],
    proto: [51, 73],
    compatible: 'none',
    instead: {
      option: 'reasoning_effort',
      upTo: [
        [0, 'none'],
        [2048, 'low'],
        [8192, 'medium'],
        [output_tokens.max, 'high'],
      ],
    },
  },
  verbosity: {
    type: 'word',
    words: ['low', 'medium', 'high'],
    summary: 'How much the answer says. A model that does not know it answers as always.',
    proto: [35, 45],
    compatible: 'all',
  },
  parallel_tool_calls: {
    type: 'flag',
    summary: 'False: the answer has one tool call at most.',
    proto: [25, 33],
    compatible: 'all',
    neutral: true,
  },
  raw: {
    type: 'flag',
    summary:
      'Continue the prompt as it is, without a chat template. Control tokens in it are read.',
    proto: [38, 49],
    compatible: 'none',
    neutral: false,
  },
  suffix: {
    type: 'form',
    summary:
      'Write what is between the prompt and this text, with a model that fills in the middle.',
    proto: [39, 50],
    compatible: 'none',
  },
} as const satisfies Record<string, Option>;

type Table = typeof options;
export type OptionName = keyof Table;

/** The options whose values have a form. */
interface Forms {
  tools: readonly Tool[];
  tool_choice: ToolChoice;
  response_format: ResponseFormat;
  regex: string;
  choice: readonly string[];
  grammar: string;
  stop: readonly string[];
  suffix: string;
  logit_bias: Readonly<Record<string, number>>;
  lora: Readonly<Record<string, number>>;
}
type Value<N extends OptionName> = N extends keyof Forms
  ? Forms[N]
  : Table[N] extends { words: readonly (infer W)[] }
    ? W
    : Table[N] extends { type: 'flag' }
      ? boolean
      : number;

export type Options = { [N in OptionName]: Value<N> };
/** The options that a recorded request always has. A seed is drawn where the client chose none. */
type Always = 'max_tokens' | 'temperature' | 'seed';
/** Absent: the default of the provider. */
export type AnswerOptions = Partial<Omit<Options, Always>>;

/** The rows, as a list. */
export const optionRows = Object.entries<Option>(options) as readonly [OptionName, Option][];

/** The names of the rows that have this. */
export function optionsWith<F extends keyof Option, V = unknown>(field: F, value?: V) {
  type Names = {
    [N in OptionName]: Table[N] extends Record<F, V> ? N : never;
  }[OptionName];
  return optionRows
    .filter(([, row]) => (value === undefined ? row[field] !== undefined : row[field] === value))
    .map(([name]) => name) as Names[];
}

export type RecordedName = {
  [N in OptionName]: Table[N] extends { proto: readonly [number, number] } ? N : never;
}[OptionName];
/** Options that a record shows. */
export const recordedNames = optionRows.flatMap(([name, { proto }]) =>
  proto[1] === undefined ? [] : [name],
) as RecordedName[];

type Said = { readonly [N in OptionName]?: unknown };

/**
 * The rows of what a request says, with the values, but for those that change nothing, as an empty
 * list. An option that the provider lacks becomes its substitute, if there is one.
 */
export function effectiveRows(
  request: Said,
  hasPlace: (name: OptionName) => boolean = () => false,
): (readonly [OptionName, Option, unknown])[] {
  const said: Record<string, unknown> = { ...request };
  for (const [name, { instead }] of optionRows) {
    const number = said[name];
    if (instead === undefined || typeof number !== 'number' || hasPlace(name)) continue;
    said[instead.option] ??= instead.upTo.find(([most]) => number <= most)?.[1];
    delete said[name];
  }
  return optionRows.flatMap(([name, row]) => {
    const value = said[name] ?? undefined;
    const isEmpty = typeof value === 'object' && value !== null && Object.keys(value).length === 0;
    const changes = value !== undefined && value !== row.neutral && !isEmpty;
    return changes ? [[name, row, value] as const] : [];
  });
}

/** The options of a request that has more fields. One that is null or undefined is absent. */
export function optionsIn(
  request: { readonly [N in OptionName]?: Options[N] | null | undefined },
): AnswerOptions {
  return Object.fromEntries(
    optionRows.flatMap(([name]) =>
      (request[name] ?? null) === null || ALWAYS.has(name) ? [] : [[name, request[name]]],
    ),
  );
}
const ALWAYS: ReadonlySet<OptionName> = new Set<Always>(['max_tokens', 'temperature', 'seed']);

export interface PresetNumber {
  min: number;
  max: number;
  /** Only whole numbers. */
  whole: boolean;
}
export interface NumberField extends PresetNumber {
  /** The flag of the command line. */
  flag: string;
}
export type NumberFieldName = {
  [N in OptionName]: Table[N] extends { flag: unknown; min: number } ? N : never;
}[OptionName];

/** The numbers that the command line can set. */
export const numberFields = Object.fromEntries(
  optionRows.flatMap(([name, { type, min, max, flag }]) =>
    flag === undefined || min === undefined || max === undefined
      ? []
      : [[name, { flag: flag[0], min, max, whole: type === 'whole' }]],
  ),
) as Record<NumberFieldName, NumberField>;

/** The numbers that presets can set: those, and others that models of Ollama have. */
export type PresetNumberName = NumberFieldName | 'presence_penalty' | 'frequency_penalty';
const { presence_penalty, frequency_penalty } = options;
export const presetNumbers: Readonly<Record<PresetNumberName, PresetNumber>> = {
  ...numberFields,
  presence_penalty: { ...presence_penalty, whole: false },
  frequency_penalty: { ...frequency_penalty, whole: false },
};

/** The texts that the command line can set. */
export const textFields = optionRows.flatMap(([name, { type, flag, many = false }]) =>
  type === 'form' && flag !== undefined ? [{ name, flag: flag[0], many }] : [],
);

/** Most texts that may end an answer. */
export const STOPS_MAX = 16;

/** The images and sounds that a run may have, by the first bytes of their file in hex. */
export const mediaSignatures: Readonly<Record<string, RegExp>> = {
  'image/png': /^89504e470d0a1a0a/,
  'image/jpeg': /^ffd8ff/,
  'image/gif': /^47494638(37|39)61/,
  'image/webp': /^52494646.{8}57454250/,
  'audio/wav': /^52494646.{8}57415645/,
  'audio/mpeg': /^(?:494433|ff(?:f[23ab]|e[23]))/,
};

/** Node would leave out invalid base64. */
export function isBase64(data: string): boolean {
  return data.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(data);
}

/** The type of a file by its first bytes; `data`: bytes, or base64. Null: another type. */
export function fileTypeOf(data: Buffer | string): string | null {
  const begin =
    typeof data === 'string'
      ? Buffer.from(data.slice(0, (SIGNATURE_BYTES / 3) * 4), 'base64')
      : data.subarray(0, SIGNATURE_BYTES);
  const head = begin.toString('hex');
  return Object.entries(mediaSignatures).find(([, begins]) => begins.test(head))?.[0] ?? null;
}

/** The kind of part that a file of such a type is in a message. */
export function mediaKind(media_type: string): 'image' | 'audio' {
  return media_type.startsWith('image/') ? 'image' : 'audio';
}

/** What OpenAI's API calls the types of sounds. */
export const audioFormats = { wav: 'audio/wav', mp3: 'audio/mpeg' } as const;

export function audioFormatOf(media_type: string): keyof typeof audioFormats {
  return media_type === audioFormats.wav ? 'wav' : 'mp3';
}
/** Bytes of a file that its signature is in. */
const SIGNATURE_BYTES = 18;

/** The option that has this name at Ollama. */
export function ollamaOption(name: string): OptionName | undefined {
  return optionRows.find(([, { ollama }]) => ollama === name)?.[0];
}

/**
 * The value of an option at Ollama, as svc has it. Null: the default applies. Undefined: svc does
 * not support it.
 */
export function fromOllama(name: OptionName, value: unknown): unknown {
  const { type, min = 0, max = Number.MAX_SAFE_INTEGER }: Option = options[name];
  if (name === 'stop') return stopsOf(value);
  if (typeof value !== 'number' || !Number.isFinite(value)) return undefined;
  if (type === 'whole' && !Number.isInteger(value)) return undefined;
  // Programs in Go send any number. Equal seeds stay equal.
  if (name === 'seed') return value < 0 ? null : value % (max + 1);
  // Zero and less mean no bound but the context.
  if (name === 'max_tokens') return value < 1 ? max : Math.min(value, max);
  // A larger context than any is the largest.
  if (name === 'context_tokens') return value < min ? undefined : Math.min(value, max);
  return value >= min && value <= max ? value : undefined;
}

function stopsOf(value: unknown): unknown {
  const all = [value].flat();
  const isList = all.every((text) => typeof text === 'string' && text !== '');
  if (!isList || all.length > STOPS_MAX) return undefined;
  return all.length === 0 ? null : all;
}
