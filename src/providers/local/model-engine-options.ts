import type { EngineEvent, EngineSnapshot } from '../../../machines/engine.ts';
import { SvcError } from '../../errors.ts';
import type { Log, StreamPort } from '../../kernel/port.ts';
import type { Limits } from '../../limits.ts';
import type { ModelShape } from '../../models/memory-needs.ts';
import type { LoadOrder } from './engine/messages.ts';
import type { Adapter } from './engine/native/adapters.ts';
import type { EngineChild } from './engine-child.ts';
import type { LoadGuard } from './load-guard.ts';
import { shortIdentity } from './model-identity.ts';
import type { PromptFiles } from './prompt-files.ts';
import type { ServerSpec } from './servers/server-process.ts';
import type { ModelDefaults } from './stores/defaults.ts';

/** The machine of an engine. */
export type EnginePort = StreamPort<EngineSnapshot, EngineEvent>;

export interface EngineSettings {
  load: Omit<LoadOrder, 'type' | 'path' | 'templates'>;
  env: NodeJS.ProcessEnv;
  limits: Limits;
  log: Log;
  /** The built-in model. Its chat template is trusted. For a GPU it is too small. */
  built_in: string;
  guard: Pick<LoadGuard, 'admit' | 'readmit' | 'noteFailure' | 'noteLoaded'>;
  /** The chat templates that the configuration names for a file. */
  templatesOf(model: ModelFile): Promise<string[]>;
  /** Its LoRA adapters, with the scales of the model. */
  adaptersOf(model: ModelFile): Promise<Adapter[]>;
  prompts: Pick<PromptFiles, 'folder' | 'budget_bytes' | 'note'>;
}

export interface ModelFile {
  /** `provider/name`. */
  id: string;
  name: string;
  /** Of a server: what names it among the engines. */
  path: string;
  /** What its program asks it for where a request says nothing. */
  defaults?: ModelDefaults;
  server?: ServerSpec;
  /** Scales of its adapters by id, where a request has other ones than usual. */
  scales?: readonly number[];
}

/** How a process has to be loaded. Null: any way will do. */
export interface Needs {
  threads: number | null;
  /** The least context of one run. */
  context_tokens: number | null;
  /** The identity of the model file. No other load can change it. */
  model_file: string | null;
}
export const ANY: Needs = { threads: null, context_tokens: null, model_file: null };

/** Throws model_changed if the answer so far is of another file. */
export function checkFile({ model_file }: Needs, { name }: ModelFile, found: string | null): void {
  if (model_file === null || model_file === found) return;
  throw new SvcError(
    'model_changed',
    `The answer so far is of another file with the name ${name}: ` +
      `${shortIdentity(model_file)}. Here it is ${shortIdentity(found)}.`,
  );
}

/** False: the process cannot be used. */
export type Use<P extends EngineChild> = (process: P) => boolean | Promise<boolean>;

/** Before the first event there is no machine. */
export function isLoading(snapshot: EngineSnapshot | undefined): boolean {
  return snapshot?.hasTag('loading') === true;
}

/** The context to ask for. Null: the usual one is enough. */
export function largerContext({ context_tokens }: Needs, usual_tokens: number): number | null {
  return context_tokens !== null && context_tokens > usual_tokens ? context_tokens : null;
}

/** Whether a loaded process has what is needed. A model with less context than asked has enough. */
export function meets(
  needs: Needs,
  { context: { info, context_tokens } }: EngineSnapshot,
  usual_tokens: number,
): boolean {
  const { threads } = needs;
  const larger = largerContext(needs, usual_tokens);
  return (
    (threads === null || info === null || threads === info.threads) &&
    (larger === null || larger <= (context_tokens ?? usual_tokens))
  );
}

export interface ModelEngineOptions extends EngineSettings {
  engine: EnginePort;
  model: ModelFile;
  /** Which file it is. Null: it cannot be read. */
  identify(model: ModelFile): Promise<string | null>;
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
  /** The process of this attempt has so much memory. */
  grow(attempt: number, bytes: number): void;
  /** How long the model stays in memory without work. Undefined: the default. */
  keepMs(): number | undefined;
}
