import type { Attention } from './attention.ts';
import type { Embedding, EmbeddingSent } from './embed-input.ts';
import type { Message, RunRequest, SourceRequest } from './messages/parts.ts';
import type { ModelRecord } from './model-record.ts';

export type * from './conversation-page.ts';
export type { EmbedInput } from './embed-input.ts';
export type * from './faulty-model.ts';
export type * from './history.ts';
export type {
  ConversationListQuery,
  LifecycleInput,
  LoadInput,
  NextInput,
  ProviderInput,
  RunListQuery,
  RunSearchQuery,
} from './inputs.ts';
export type * from './loaded-models.ts';
export type * from './nodes.ts';
export type * from './records.ts';
export type { RunInput, RunPage, RunRecord, SearchPage } from './run.ts';
export type { UsageInput, UsageRecord } from './usage.ts';

/**
 * The inputs and outputs of the runtime. The schemas are beside this file, the methods in
 * `src/operations/port.ts`.
 */

/** Some of the tools of a server: those that each given field names. */
export interface ToolFilter {
  tool_names?: readonly string[] | undefined;
  /** The tools without these names. */
  except?: readonly string[] | undefined;
  read_only?: boolean | undefined;
}

/** A request for fewer tools of a server, or for more approvals. It never allows a call. */
export interface ToolNarrowing {
  server: string;
  /** The tools that the model gets. */
  allowed: ToolFilter;
  /** The tools for which the configuration alone decides. The others need an approval. */
  unasked: ToolFilter | null;
  /** The tools that always need an approval. */
  asked: ToolFilter | null;
}

/** Through which API a request came, and how. */
export interface RequestSource {
  asked_as?: SourceRequest;
  /** Names the span of the client, in the form of the W3C. */
  traceparent?: string;
  /**
   * The run belongs to a conversation that a program made, after so many of its entries. Its
   * `messages` are those of the request itself.
   */
  joins?: { conversation: string; after: number; messages: readonly Message[] };
  /** How many runs answer the request, if several do. */
  choices?: number;
  /** The tools that the request leaves out of the tool servers that it names. */
  narrowings?: readonly ToolNarrowing[];
  /** The client reads the answer as it comes, so the model is not called again for its form. */
  streams?: boolean;
  /** How many milliseconds the client waits at most: a bound on the time of the run. */
  within_ms?: number;
}

/** The request of a run, with its images. The record has only their size. */
export interface RunRequestRecord {
  request: RunRequest;
  asked_as: SourceRequest | null;
  metadata: Readonly<Record<string, string>> | null;
  /** Milliseconds since the epoch. */
  created_at: number;
}

/** Who answers a run, and the conversation that it continues. */
export interface NextTurn {
  provider: string;
  model: string;
  /** The prompt leaves this machine. */
  cloud: boolean;
  conversation?: string;
  /** Names of tokens that started turns of it. */
  turns_of?: string[];
}

/** The data of a run without its texts. */
export interface RunHead {
  state: string;
  finished: boolean;
  /** Position of its last event in the log. */
  seq: number;
}

/** Who asks for embeddings: a client, and the name of its token. */
export type Asker = Pick<EmbeddingSent, 'client' | 'asked_by'>;

/** The load of a model. `progress`: how much of it is in memory, from 0 to 1. */
export interface ModelLoad {
  model: string;
  progress: number;
}

/** What a run waits for. The log has no events of it, so it has no position there. */
export type RunWait = { queue_position: number } | { loading: ModelLoad };

/** The vectors of texts, and who computed them. */
export interface EmbeddingRecord extends Embedding {
  provider: string;
  model: string;
}

export interface Probe {
  live: boolean;
  ready: boolean;
}

export interface ModelDetails extends ModelRecord {
  metadata: Record<string, unknown>;
  metadata_left_out: number;
  /** The kind of its chat template. */
  template?: string | null;
  licence?: string | null;
  /** An estimate of the memory that it needs, with the present limits. */
  memory_bytes?: number | null;
  /** How the local engine caches its contexts. */
  attention?: Attention;
  /** The file beside it with which llama-server reads images. */
  projector?: string | null;
  /** Paths of its LoRA adapters, in the order of their ids. */
  adapters?: readonly string[];
  /** The model that guesses its tokens. `problem`: why it cannot. */
  draft?: { model: string; problem: string | null } | null;
  /** Where svc has it from. */
  origin?: { reference: string; revision: string | null; sha256: string; at: string } | null;
  /** Of an alias: the model that it means, and the Modelfile that recreates it. */
  alias_of?: string;
  modelfile?: string;
  /** Parts of a model of another program that svc does not use, such as `template`. */
  unused?: readonly string[];
  /**
   * The default options of that program or of the alias. `turns`: messages before those of a
   * request.
   */
  defaults?: { system?: string; options: object; turns?: number };
}

export interface LogQuery {
  /** The first position. Without it, only new events. */
  from_seq?: number;
  follow: boolean;
  /** A name, or the beginning of one with `*` after it. */
  stream?: string;
  type?: string;
}

/** Each alias names a model, or several targets in their order. */
export type Aliases = Readonly<Record<string, string | readonly string[]>>;
