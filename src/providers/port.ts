import type { FinishReason, RunRequest, Usage } from '../../machines/events.ts';

/**
 * The port to whatever answers prompts. Implementations live in `src/providers/`; nothing above the kernel sees them.
 */

export type OutputPart =
  /**
   * Text to append. `token_ids` are the ids it was decoded from, empty where the provider does not tell. `threads`: how many compute it,
   * where that can change the answer.
   */
  | { type: 'output'; text: string; token_ids: number[]; threads?: number }
  /** The last part of a complete answer. A stream that ends without it was cut off. */
  | { type: 'finish'; finish_reason: FinishReason; usage: Usage };

export interface Resume {
  text: string;
  token_ids: number[];
  /** Threads that computed it; null when that is not known. */
  threads: number | null;
}

export interface AttemptRequest {
  run_id: string;
  attempt: number;
  request: RunRequest;
  /** What the log holds of the answer already: only what comes after it is streamed. Null: from the beginning. */
  resume: Resume | null;
}

export interface ModelRecord {
  /** `provider/name`, as `--model` takes it. */
  id: string;
  provider: string;
  name: string;
  state: 'available' | 'loaded' | 'loading' | 'invalid';
  size_bytes: number | null;
  digest: string | null;
  quantization: string | null;
  parameters: number | null;
  context_length: number | null;
  capabilities: string[];
  default: boolean;
  built_in: boolean;
  path: string | null;
}

export interface ProviderPort {
  readonly id: string;
  /**
   * Streams one answer. Aborting the signal stops the work: the iteration then ends or throws, and only when it has is the
   * work over. Throws SvcError; anything else counts as provider_failed.
   */
  stream(attempt: AttemptRequest, signal: AbortSignal): AsyncIterable<OutputPart>;
  /** Throws SvcError when the provider cannot be asked. */
  models(signal: AbortSignal): Promise<ModelRecord[]>;
  /** Is it there, and does it accept us? Spends no token. */
  probe(signal: AbortSignal): Promise<{ models: string[] }>;
  close(): Promise<void>;
}
