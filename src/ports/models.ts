import type { Effects } from '../../machines/effects.ts';
import type { Fit } from '../contract/model-record.ts';

/**
 * The port to the downloader of models. Its implementation is in `src/models/`; only the runtime
 * calls it.
 */

export interface PullInput {
  /**
   * A short name such as `qwen3:0.6b`, or a URL, or `hf:user/repo[:QUANT]`, or
   * `hf:user/repo/file.gguf`. The last two take an optional `@revision`.
   */
  reference: string;
  /** Name of the model in the models folder. Null: the name of the file. */
  name: string | null;
  /** The expected sha256 of the file, in hexadecimal. */
  sha256: string | null;
  /** Also a model that does not fit the memory. */
  anyway?: boolean;
}

/** A checked request. */
export interface PullTask {
  /** Equal for two requests for the same file. */
  key: string;
  /** The reference without secrets. */
  shown: string;
}

/** A repository of models, as the hub describes it. */
export interface FoundModel {
  /** What a pull takes: `hf:user/repo`, or a file in it. */
  reference: string;
  /** Of a file. Null: it is a repository. */
  size_bytes: number | null;
  /** Of a repository: of its model in Q4_K_M. Null: its size is unknown. */
  fit: Fit | null;
  downloads: number | null;
  licence: string | null;
  /** The hub sends it only to users who accepted its terms. */
  gated: boolean;
}

export interface PullerPort<T extends PullTask = PullTask> {
  /** Throws invalid_request. */
  read(input: PullInput): T;
  /** Whether a file of this size fits the memory. Null: unknown. */
  fit(size_bytes: number | null): Fit | null;
  /** Asks the hub for models with these words, or for those of one repository. Throws SvcError. */
  search(words: string, signal: AbortSignal): Promise<FoundModel[]>;
  /** Puts a file into the models folder. Resolves with its path. Throws SvcError. */
  import(input: { path: string; name: string | null }, signal: AbortSignal): Promise<string>;
  /** Keeps the task of a pull until `release`. */
  accept(pull_id: string, task: T): void;
  release(pull_id: string): void;
  start(params: Effects['startPull']): void;
  stop(params: Effects['stopPull']): void;
  /** Stops all downloads and closes all connections. */
  close(): Promise<void>;
}
