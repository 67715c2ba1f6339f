import type { Failure } from '../../../../machines/events.ts';
import type { Message, OutputPart, Piece, TokenLogprob } from '../../../../machines/messages.ts';
import type { FinishReason, Usage } from '../../../../machines/run/context.ts';
import type { AnswerOptions } from '../../../contract/options.ts';
import { isRecord } from '../../../json.ts';

/** Messages to the engine process. */
export type ToEngine =
  | LoadOrder
  | RunOrder
  | EmbedOrder
  | { type: 'stop_run'; id: number }
  | { type: 'stop' };

/** What a model is loaded for. Each purpose has its own context. */
export type Purpose = 'answers' | 'embeddings';
/** The key of an engine. The one for answers has the path of its file. */
export function keyOf(path: string, purpose: Purpose): string {
  return purpose === 'answers' ? path : `${purpose} ${path}`;
}

/** Layers of a model on a GPU. `auto`: as many as fit. */
export type GpuLayers = 'auto' | 'max' | number;

export type Batching = 'auto' | boolean;

export interface LoadOrder {
  type: 'load';
  path: string;
  purpose: Purpose;
  gpu_layers: GpuLayers;
  /** Null: measured, or known from an earlier measurement. */
  threads: number | null;
  /** File of measured thread numbers. */
  threads_file: string;
  /** Runs at one time. */
  parallel: number;
  /** Tokens of one run, prompt and answer together. */
  context_tokens: number;
  /** Compute runs that need not be exact in one batch. `auto`: if a measurement says it pays. */
  batching: Batching;
  /** Time limit of the chat template. Null: none, for the built-in model. */
  template_ms: number | null;
}

export interface RunOrder {
  type: 'run';
  id: number;
  /** Runs of one client share what was computed for a conversation. */
  client: string;
  messages: readonly Message[];
  max_tokens: number;
  temperature: number | null;
  seed: number;
  /** Compute it by itself. Another run cannot change the answer. */
  exact: boolean;
  /** Only count the tokens of the prompt: it finishes without output. */
  only_count: boolean;
  /** What the request asks for beside its messages. */
  options: AnswerOptions;
  /** Part of the ids of tool calls, the same in each attempt. */
  call_key: string;
  /** The tokens and parts to continue after. Null: a new answer. */
  resume: {
    token_ids: number[];
    text: string;
    parts: readonly OutputPart[];
    batched: boolean;
    /** What computed it. Null: unknown. */
    threads: number | null;
    /** How its prompt was computed. Absent: in batches from its beginning. */
    prompt_parts?: readonly number[];
  } | null;
}

export interface EmbedOrder {
  type: 'embed';
  id: number;
  texts: readonly string[];
  /** The length of each vector. Null: that of the model. */
  dimensions: number | null;
}

/**
 * Messages of the engine process. Each order gets outputs or vectors, then exactly one of finished,
 * failed and stopped.
 */
export type FromEngine =
  | { type: 'started' }
  /** The part of the model that is loaded, from 0 to 1. */
  | { type: 'progress'; loaded: number }
  | ({ type: 'loaded' } & Loaded)
  | { type: 'load_failed'; error: Failure }
  | ({ type: 'output'; id: number } & Output)
  /** Of the next text of the order. */
  | { type: 'vector'; id: number; vector: number[] }
  | ({ type: 'finished'; id: number } & Finish)
  | { type: 'failed'; id: number; error: Failure }
  | { type: 'stopped'; id: number };

/** A piece of an answer with its tokens, and their probabilities if asked. */
export interface Output extends Piece {
  token_ids: number[];
  logprobs?: TokenLogprob[];
  /** What computed it. */
  threads?: number;
  /** Some of its tokens, or earlier ones, were computed together with other runs. */
  batched?: boolean;
  /** How its prompt was computed. In the first output. */
  prompt_parts?: number[];
}

/** `stop_sequence`: the stop text that ended the answer. */
export interface Finish {
  finish_reason: FinishReason;
  usage: Usage;
  stop_sequence?: string;
}

export interface Loaded {
  threads: number;
  context_length: number;
  parallel: number;
  load_ms: number;
  chat_template: string;
  /** Runs that need not be exact are computed in one batch. */
  batching: boolean;
  /** What computes: `cpu`, or the interface of a GPU. */
  gpu: string;
  /** Layers of the model on the GPU. */
  gpu_layers: number;
}

/** Null: not a message to the engine. */
export function parseToEngine(value: unknown): ToEngine | null {
  return hasShape(value, toEngine) ? (value as ToEngine) : null;
}

/** Null: not a message of the engine. */
export function parseFromEngine(value: unknown): FromEngine | null {
  return hasShape(value, fromEngine) ? (value as FromEngine) : null;
}

type Check = (value: unknown) => boolean;
type Shapes<M extends { type: string }> = {
  [T in M['type']]: { [K in Exclude<keyof Extract<M, { type: T }>, 'type'>]-?: Check };
};

const text: Check = (value) => typeof value === 'string';
const number: Check = (value) => typeof value === 'number' && Number.isFinite(value);
const whole: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const orNull =
  (check: Check): Check =>
  (value) =>
    value === null || check(value);
const orAbsent =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value);
const wholes: Check = (value) => Array.isArray(value) && value.every(whole);
const failure: Check = (value) =>
  isRecord(value) &&
  text(value.code) &&
  text(value.message) &&
  typeof value.retryable === 'boolean' &&
  orAbsent(text)(value.param);
const resume: Check = (value) =>
  isRecord(value) &&
  wholes(value.token_ids) &&
  text(value.text) &&
  Array.isArray(value.parts) &&
  typeof value.batched === 'boolean' &&
  orNull(whole)(value.threads) &&
  orAbsent(wholes)(value.prompt_parts);
const call: Check = (value) => isRecord(value) && text(value.id) && text(value.name);
const usage: Check = (value) =>
  isRecord(value) && orNull(whole)(value.input_tokens) && orNull(whole)(value.output_tokens);

const toEngine: Shapes<ToEngine> = {
  load: {
    path: text,
    purpose: text,
    gpu_layers: (value) => value === 'auto' || value === 'max' || whole(value),
    threads: orNull(whole),
    threads_file: text,
    parallel: whole,
    context_tokens: whole,
    batching: (value) => value === 'auto' || typeof value === 'boolean',
    template_ms: orNull(whole),
  },
  run: {
    id: whole,
    client: text,
    messages: Array.isArray,
    max_tokens: whole,
    temperature: orNull(number),
    seed: whole,
    exact: (value) => typeof value === 'boolean',
    only_count: (value) => typeof value === 'boolean',
    options: isRecord,
    call_key: text,
    resume: orNull(resume),
  },
  embed: {
    id: whole,
    texts: (value) => Array.isArray(value) && value.every(text),
    dimensions: orNull(whole),
  },
  stop_run: { id: whole },
  stop: {},
};

const fromEngine: Shapes<FromEngine> = {
  started: {},
  progress: { loaded: number },
  loaded: {
    threads: whole,
    context_length: whole,
    parallel: whole,
    load_ms: whole,
    chat_template: text,
    batching: (value) => typeof value === 'boolean',
    gpu: text,
    gpu_layers: whole,
  },
  load_failed: { error: failure },
  output: {
    id: whole,
    text,
    token_ids: wholes,
    kind: orAbsent(text),
    call: orAbsent(call),
    logprobs: orAbsent(Array.isArray),
    threads: orAbsent(whole),
    batched: orAbsent((value) => typeof value === 'boolean'),
    prompt_parts: orAbsent(wholes),
  },
  vector: { id: whole, vector: (value) => Array.isArray(value) && value.every(number) },
  finished: { id: whole, finish_reason: text, usage, stop_sequence: orAbsent(text) },
  failed: { id: whole, error: failure },
  stopped: { id: whole },
};

function hasShape(value: unknown, shapes: Record<string, Record<string, Check>>): boolean {
  if (!isRecord(value) || typeof value.type !== 'string' || !Object.hasOwn(shapes, value.type))
    return false;
  return Object.entries(shapes[value.type] ?? {}).every(([key, check]) => check(value[key]));
}
