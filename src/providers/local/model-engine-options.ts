import type { EngineSnapshot } from '../../../machines/engine.ts';
import type { EngineEvent } from '../../../machines/events.ts';
import type { Log, StreamPort } from '../../kernel/port.ts';
import type { Limits } from '../../limits.ts';
import type { LoadOrder } from './engine/messages.ts';
import type { LoadGuard } from './load-guard.ts';
import type { ModelShape } from './memory-needs.ts';

/** The machine of an engine. */
export type EnginePort = StreamPort<EngineSnapshot, EngineEvent>;

export interface EngineSettings {
  load: Omit<LoadOrder, 'type' | 'path'>;
  env: NodeJS.ProcessEnv;
  limits: Limits;
  log: Log;
  /** The built-in model: its chat template is trusted. */
  built_in: string;
  guard: Pick<LoadGuard, 'admit' | 'readmit' | 'noteFailure' | 'noteLoaded'>;
}

export interface ModelFile {
  /** `local/name`. */
  id: string;
  name: string;
  path: string;
}

export interface ModelEngineOptions extends EngineSettings {
  engine: EnginePort;
  model: ModelFile;
  /**
   * Waits for memory for the next process, with this context or the usual one. Returns how many
   * runs its context is for. Throws model_too_large, and the signal's reason.
   */
  reserve(
    shape: ModelShape,
    context_tokens: number | null,
    signal: AbortSignal,
  ): Promise<{ parallel: number }>;
  /** The load of this attempt did not begin. */
  release(attempt: number): void;
  /** How long the model stays in memory without work. Undefined: the default. */
  keepMs(): number | undefined;
}
