import type { Effects } from '../../machines/effects.ts';

/**
 * The port to the downloader of models. Its implementation is in `src/models/`; only the runtime
 * calls it.
 */

export interface PullInput {
  /**
   * `hf:user/repo[:QUANT]` or `hf:user/repo/file.gguf`, each with an optional `@revision`, or a
   * URL.
   */
  reference: string;
  /** Name of the model in the models folder. Null: the name of the file. */
  name: string | null;
  /** The expected sha256 of the file, in hexadecimal. */
  sha256: string | null;
}

/** A checked request. */
export interface PullTask {
  /** Equal for two requests for the same file. */
  key: string;
  /** The reference without secrets. */
  shown: string;
}

export interface PullerPort<T extends PullTask = PullTask> {
  /** Throws invalid_request. */
  read(input: PullInput): T;
  /** Keeps the task of a pull until `release`. */
  accept(pull_id: string, task: T): void;
  release(pull_id: string): void;
  start(params: Effects['startPull']): void;
  stop(params: Effects['stopPull']): void;
  /** Stops all downloads and closes all connections. */
  close(): Promise<void>;
}
