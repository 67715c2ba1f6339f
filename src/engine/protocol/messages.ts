import type { Attention } from '../../contract/attention.ts';
import type { Message, OutputPart } from '../../contract/messages/parts.ts';
import type { AnswerOptions } from '../../contract/options.ts';
import type { ReadOptions } from '../../contract/reading.ts';
import type { Adapter } from '../native/adapters.ts';
import type { FromEngine } from './from-engine.ts';

/** Messages to the engine process. */
export type ToEngine =
  | LoadOrder
  | RunOrder
  | EmbedOrder
  | ReadOrder
  | { type: 'stop_run'; id: number }
  | { type: 'stop' };

/** Messages of the thread that computes to that of the channel. `closed`: after a stop. */
export type FromWorker = FromEngine | Rendering | { type: 'rendered' } | { type: 'closed' };

/** A template is rendered from now on, for so much processor time. */
export interface Rendering {
  type: 'rendering';
  /** The order that needs it. Null: the load. */
  id: number | null;
  ms: number;
}

/** The purpose of a loaded model. Each purpose has its own context. */
export type Purpose = 'answers' | 'embeddings' | 'reranking';
/**
 * The key of an engine. The one for answers has the path of its file. `variant`: what makes it
 * another load. Empty: it is the usual one.
 */
export function keyOf(path: string, purpose: Purpose, variant = ''): string {
  const key = purpose === 'answers' ? path : `${purpose} ${path}`;
  return variant === '' ? key : `${variant} ${key}`;
}

/** Layers of a model on a GPU. `auto`: as many as fit. */
export type GpuLayers = 'auto' | 'max' | number;

/** The usual values. */
export const ATTENTION: Attention = { cache_keys: 'f16', cache_values: 'f16', flash: 'auto' };

export type Batching = 'auto' | boolean;

export interface LoadOrder {
  type: 'load';
  path: string;
  purpose: Purpose;
  gpu_layers: GpuLayers;
  /** Of contexts for answers. Other contexts have the usual values. */
  attention: Attention;
  /** Null: measured, or known from an earlier measurement. */
  threads: number | null;
  /** File of measured thread numbers. */
  threads_file: string;
  /** Folder of builds of llama.cpp that the user installed. Absent: only those of svc count. */
  builds?: string;
  /** Runs at one time. */
  parallel: number;
  /** Tokens of one run, prompt and answer together. */
  context_tokens: number;
  /** Compute runs that need not be exact in one batch. `auto`: if a measurement says it pays. */
  batching: Batching;
  /** Time limit of the chat template. Null: none, for the built-in model. */
  template_ms: number | null;
  /** Templates that the configuration names. Absent: none. */
  templates?: readonly string[];
  /** LoRA adapters of the model. Absent: none. */
  adapters?: readonly Adapter[];
  /** A smaller model that guesses its tokens. Absent: none. */
  draft?: string;
  /** Where computed prompts of this model file are kept. Absent: nowhere. */
  prompts?: { folder: string; budget_bytes: number; model: string };
}

export interface RunOrder {
  type: 'run';
  id: number;
  /** Runs of one client share the computed tokens of a conversation. */
  client: string;
  messages: readonly Message[];
  max_tokens: number;
  temperature: number | null;
  seed: number;
  /** Compute it by itself. Another run cannot change the answer. */
  exact: boolean;
  /** Only count the tokens of the prompt: it finishes without output. */
  only_count: boolean;
  /** The fields of the request besides its messages. */
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
  /** The text to score the texts against: each vector is one score. Null: vectors of the texts. */
  query: string | null;
  /** The length of each vector. Null: that of the model. */
  dimensions: number | null;
}

/** The input: a text, the ids of its tokens, or the prompt of a request. */
export interface ReadOrder extends ReadOptions {
  type: 'read';
  id: number;
  of: string | readonly number[] | RunOrder;
}
