import type { FinishReason, RunRequest, Usage } from '../../machines/events.ts';
import type { ErrorCode } from '../errors.ts';

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
   * work over. Throws ProviderFailure; anything else counts as provider_failed.
   */
  stream(attempt: AttemptRequest, signal: AbortSignal): AsyncIterable<OutputPart>;
  /** Throws ProviderFailure when the provider cannot be asked. */
  models(signal: AbortSignal): Promise<ModelRecord[]>;
  /** Is it there, and does it accept us? Spends no token. */
  probe(signal: AbortSignal): Promise<{ models: string[] }>;
  close(): Promise<void>;
}

interface FailureOptions {
  retryable: boolean;
  retry_after_ms?: number | null;
  lost?: boolean;
  computing?: number;
  cause?: unknown;
}

/** Why an attempt or a probe failed, in our words. */
export class ProviderFailure extends Error {
  readonly code: ErrorCode;
  readonly retryable: boolean;
  /** The provider asked for this wait before another attempt. */
  readonly retry_after_ms: number | null;
  /** The work is gone although nobody ended it (a process died, a stream was cut). */
  readonly lost: boolean;
  /** How many runs were computed where the work died, this one included; 0: it was stopped for another reason. Null: not known. */
  readonly computing: number | null;

  constructor(code: ErrorCode, message: string, options: FailureOptions) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'ProviderFailure';
    this.code = code;
    this.retryable = options.retryable;
    this.retry_after_ms = options.retry_after_ms ?? null;
    this.lost = options.lost ?? false;
    this.computing = options.computing ?? null;
  }

  get unauthorised(): boolean {
    return this.code === 'provider_unauthorised';
  }
}
