import type { Effects } from '../../machines/effects.ts';

/** The port to whatever fetches models. Its implementation lives in `src/models/`; nothing above the kernel sees it. */

export interface PullInput {
  /** `hf:user/repo[:QUANT]`, `hf:user/repo/file.gguf`, each with `@revision` if wanted, or the address of a file. */
  reference: string;
  /** Name of the model in the models folder; by default that of the file. */
  name: string | null;
  /** What the file must hash to, in hexadecimal. */
  sha256: string | null;
}

/** A request that was understood. */
export interface PullTask {
  /** Equal for two requests that come to the same. */
  key: string;
  /** The reference, without what may be secret in it. */
  shown: string;
}

export interface PullerPort<T extends PullTask = PullTask> {
  /** Throws invalid_request. */
  read(input: PullInput): T;
  /** The task of a pull is known from here on until it is released. */
  accept(pull_id: string, task: T): void;
  release(pull_id: string): void;
  start(params: Effects['startPull']): void;
  stop(params: Effects['stopPull']): void;
  /** Ends every work and every connection. */
  close(): Promise<void>;
}
