import type { Room } from '../../machines/runs-to-start.ts';
import type { LoadedModelRecord } from '../contract/contract.ts';
import type { Embedding, EmbedText } from '../contract/embed-input.ts';
import type { Completion } from '../contract/events.ts';
import type {
  OutputPart as AnswerPart,
  RunOutput,
  RunRequest,
} from '../contract/messages/parts.ts';
import type { ModelRecord } from '../contract/model-record.ts';
import type { Reading, ReadOptions } from '../contract/reading.ts';

/**
 * The port to providers of answers. Implementations are in `src/providers/` and `src/cloud/`; only
 * the runtime calls them.
 */

export type OutputPart =
  /**
   * Text to append, and the ids of its tokens if the provider sends them. Without `kind` it is text
   * of the answer. `threads`: the threads that compute it, if their number can change the answer.
   */
  | ({ type: 'output' } & Omit<RunOutput, 'attempt' | 'offset' | 'part'>)
  /** The last part of a complete answer. A stream without it was cut off. */
  | ({ type: 'finish' } & Completion);

export interface Resume {
  text: string;
  /** All parts of the answer so far. Empty if it is only text. */
  parts: readonly AnswerPart[];
  token_ids: number[];
  /** Threads that computed it. Null: unknown. */
  threads: number | null;
  /** Some of it was computed together with other runs. */
  batched: boolean;
  /** The model file that computed it. Null: unknown. */
  model_file: string | null;
  /** How its prompt was computed: see `RunOutput`. */
  prompt_parts?: readonly number[];
}

export interface AttemptRequest {
  run_id: string;
  attempt: number;
  /** The principal and its client that asked. Absent: unknown. */
  client?: string;
  request: RunRequest;
  /** The part of the answer in the log: the stream continues after it. Null: a new answer. */
  resume: Resume | null;
}

/** A local model that is loaded with its own settings, under its own name. */
export interface CreatedModel {
  name: string;
  /** The model whose file it has. */
  model: string;
  /** In place of the template of the file. */
  chat_template?: string;
  /** Paths, in place of the adapters that the configuration names. */
  adapters?: readonly string[];
}

/** A model in memory, on its way there, or on its way out. Times are in milliseconds. */
export interface LoadedModel
  extends Omit<LoadedModelRecord, 'since' | 'keep_alive_ms' | 'expires_at'> {
  since: number;
  /** How long it stays without work. */
  keep_ms: number;
  /** When it leaves unless there is work. Null: it has work, or stays. */
  expires_at: number | null;
}

export interface LoadedModels {
  models: LoadedModel[];
  /** What all models together may reserve, and what they have reserved. */
  budget_bytes: number;
  reserved_bytes: number;
}

/** Which local models are in memory. Models are named as in a run, and results are ids. */
export interface ModelLoads {
  loaded(now: number): LoadedModels;
  /** Loads a model, and keeps it so long without work. Throws SvcError, or the signal's reason. */
  load(name: string, keep_ms: number | null, signal: AbortSignal): Promise<string>;
  /** Throws model_in_use, and the errors of a name. */
  unload(name: string): Promise<string>;
  /** How long the model of a run stays in memory without work. */
  keep(name: string, keep_ms: number): Promise<void>;
  /** The name of the server of a provider here. Null: svc starts no server for it. */
  serverOf(provider: string): string | null;
  /** How much of the model of a run is loaded, from 0 to 1. Null: it is not being loaded. */
  loading(name: string): number | null;
}

/** The memory of local models, as the scheduler sees it. */
export interface LocalRoom extends Room {
  /** The next time at which a model no longer rests, so it may make room. Null: no model rests. */
  restEnds(now: number): number | null;
  /** Names of the models that runs wait for. The scheduler sets it. */
  queued: () => ReadonlySet<string>;
  /** Finds out what a model needs. Then `find` knows it. */
  learn(model: string): void;
  /** Calls when a model was learned, loaded or unloaded. */
  onChange(listener: () => void): void;
}

/** The part of an unfinished download in the models folder. */
export interface PartialModel {
  name: string;
  size_bytes: number;
  path: string;
}

/** The input: a text, the ids of its tokens, or the prompt of a request. */
export interface ReadInput extends ReadOptions {
  of: EmbedText | RunRequest;
}

/** A request of OpenAI's API that the provider gets as it is. */
export interface PassedRequest {
  /** Below its base_url, such as `/audio/transcriptions`. */
  path: string;
  model: string;
  content_type: string;
  body: string | Uint8Array;
  /** Secrets that no message may repeat. */
  texts: readonly string[];
  /** Takes the answer as it comes. A failure ends the request. */
  take(answer: PassedAnswer): Promise<void>;
}

export interface PassedAnswer {
  content_type: string;
  body: AsyncIterable<Uint8Array>;
}

/** How well each document answers a query, in the order of the documents. */
export interface Ranking {
  scores: number[];
  /** Tokens of all documents, each with the query. Null: unknown. */
  input_tokens: number | null;
}

export interface ProviderPort {
  readonly id: string;
  /** The forms of what it must get back with the parts of its answers. Absent: none. */
  readonly returns?: readonly string[];
  /**
   * Streams one answer. An abort stops the work, and the iteration ends or throws once the work
   * has stopped. Throws SvcError; anything else counts as provider_failed.
   */
  stream(attempt: AttemptRequest, signal: AbortSignal): AsyncIterable<OutputPart>;
  /**
   * The tokens of the prompt of this request. Computes no answer. Absent: the provider cannot
   * count. Throws SvcError.
   */
  countTokens?(request: RunRequest, signal: AbortSignal): Promise<number>;
  /**
   * Reads a text as the model does. Absent: the tokens of its models are not known here. An abort
   * stops the work. Throws SvcError.
   */
  read?(model: string, input: ReadInput, signal: AbortSignal): Promise<Reading>;
  /** Throws SvcError if the provider cannot be reached. */
  models(signal: AbortSignal): Promise<ModelRecord[]>;
  /** Checks the address and the credentials without using tokens. */
  probe(signal: AbortSignal): Promise<{ models: string[] }>;
  /**
   * The names of its models as it last read them, also when a probe failed or came too late. Null:
   * not read yet. Absent: only probes say them.
   */
  listed?(): readonly string[] | null;
  /**
   * Computes the vectors of texts. Absent: the provider cannot. An abort stops the work, and the
   * promise settles once it has stopped. Throws SvcError, such as model_unknown and
   * capability_missing.
   */
  embed?(
    model: string,
    texts: readonly EmbedText[],
    options: { dimensions?: number },
    signal: AbortSignal,
  ): Promise<Embedding>;
  /** `embed` passes ids of tokens on. Absent: it takes texts alone, and gets no others. */
  readonly embedsTokens?: true;
  /** Scores documents for a query, with the rules of `embed`. Absent: the provider cannot. */
  rank?(
    model: string,
    query: string,
    documents: readonly string[],
    signal: AbortSignal,
  ): Promise<Ranking>;
  /**
   * Passes a request on. Absent: the provider speaks another API. Resolves when the answer is
   * taken. Throws SvcError: capability_missing where its server does not have the path.
   */
  pass?(request: PassedRequest, signal: AbortSignal): Promise<{ input_tokens: number | null }>;
  close(): Promise<void>;
}
