import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import {
  type Adapter,
  ATTENTION,
  type EmbedOrder,
  ENGINE,
  type FromEngine,
  type LoadOrder,
  type PromptFiles,
  parseFromEngine,
  type ReadOrder,
  type RunOrder,
  type ToEngine,
} from '../../engine/index.ts';
import { SvcError } from '../../errors.ts';
import { withRestrictions } from '../../home/restrained.ts';
import type { Reply } from './answer.ts';
import {
  EngineChild,
  type EngineChildOptions,
  engineEnvironment,
  NOT_STARTED,
  type Spawn,
} from './engine-child.ts';
import type { ModelFile } from './model-files.ts';

/** What llama.cpp does, and for whom. Its process numbers it. */
export type EngineOrder = Omit<RunOrder, 'id'> | Omit<EmbedOrder, 'id'> | Omit<ReadOrder, 'id'>;

/** What processes of models have in common. */
export interface EngineSettings extends Pick<EngineChildOptions, 'env' | 'limits' | 'log'> {
  load: Omit<LoadOrder, 'type' | 'path' | 'templates'>;
  /** The built-in model. Its chat template is trusted. For a GPU it is too small. */
  built_in: string;
  /** The chat templates that the configuration names for a file. */
  templatesOf(model: ModelFile): Promise<string[]>;
  /** Its LoRA adapters, with the scales of the model. */
  adaptersOf(model: ModelFile): Promise<Adapter[]>;
  prompts: Pick<PromptFiles, 'folder' | 'budget_bytes' | 'note'>;
}

/**
 * The settings of the next process of a model. The built-in one keeps no prompts: it answers short
 * questions, which are computed at once.
 */
export async function prepareModel(
  model: ModelFile,
  { load, env, limits, log, built_in, templatesOf, adaptersOf, prompts }: EngineSettings,
  file: Promise<string | null>,
): Promise<Spawn<EngineProcess>> {
  const isBuiltIn = model.path === built_in;
  const identity = isBuiltIn ? null : await file;
  const { folder, budget_bytes } = prompts;
  const prepared = {
    ...load,
    templates: await templatesOf(model),
    adapters: await adaptersOf(model),
    ...(model.draft === undefined ? {} : { draft: model.draft.path }),
    ...(isBuiltIn ? { template_ms: null, gpu_layers: 0, attention: ATTENTION } : {}),
    ...(identity === null ? {} : { prompts: { folder, budget_bytes, model: identity } }),
  };
  return ({ started, report }, parallel) => {
    const context_tokens = started.context_tokens ?? load.context_tokens;
    return new EngineProcess({
      started,
      load: { ...prepared, parallel, context_tokens },
      env,
      limits,
      log,
      prompts,
      report,
    });
  };
}

export interface EngineProcessOptions extends EngineChildOptions {
  load: Omit<LoadOrder, 'type' | 'path'>;
  prompts: Pick<PromptFiles, 'note'>;
}

/**
 * One engine process with llama.cpp. Every order has one reply, and every reply ends: if the
 * process dies, open replies are lost.
 */
export class EngineProcess extends EngineChild<EngineProcessOptions> {
  private readonly replies = new Map<number, Reply>();
  private lastId = 0;
  private loadedPart = 0;
  private threads: number | null = null;

  constructor(options: EngineProcessOptions) {
    const [execPath, ...execArgv] = withRestrictions(process.execPath, NODE_FLAGS);
    const child = fork(ENTRY, {
      execPath,
      execArgv,
      env: engineEnvironment(options.env),
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      serialization: 'json',
    });
    super(options, child, options.limits.engine_memory_bytes);
    child.on('message', (value) => {
      const message = parseFromEngine(value);
      if (message === null) options.log.warn({}, 'a message of the engine was not understood');
      else this.receive(message);
    });
  }

  override get progress(): number {
    return this.loadedPart;
  }

  override get orders(): number {
    return this.replies.size;
  }

  /**
   * `replyOf`: makes the reply, given the threads that compute it. `stop` asks the engine to stop
   * the order; then its reply ends.
   */
  ask<R extends Reply>(
    order: EngineOrder,
    replyOf: (threads: number | null) => R,
  ): { reply: R; stop(): void } {
    const id = ++this.lastId;
    const reply = replyOf(this.threads);
    if (this.isGone) reply.lose(this.loss(0));
    else this.replies.set(id, reply);
    try {
      this.send({ ...order, id });
    } catch (cause) {
      this.replies.delete(id);
      reply.lose(new SvcError('engine_failed', NOT_SENT, { retryable: false, cause }));
    }
    let timer: NodeJS.Timeout | undefined;
    const stop = () => {
      if (timer !== undefined || !this.replies.has(id)) return;
      this.send({ type: 'stop_run', id });
      timer = setTimeout(() => this.giveUp(), this.options.limits.cancel_grace_ms);
      void reply.ended.then(() => clearTimeout(timer));
    };
    return { reply, stop };
  }

  /** An order that does not stop in time costs the whole process. */
  private giveUp(): void {
    const { log, report } = this.options;
    log.warn(
      { engine_attempt: this.attempt },
      'the engine does not stop its work, so it is stopped itself',
    );
    if (!this.stopping) report({ type: 'engine.stop_requested', reason: 'requested' });
  }

  protected override requestExit(): void {
    this.send({ type: 'stop' });
  }

  /** Waits for the last messages before the exit is appended. */
  protected override noteExit(exit_code: number | null, signal: string | null): void {
    if (!this.hasStarted && NOT_BEGUN.has(exit_code)) this.fail(NOT_STARTED);
    if (this.child.connected) this.child.once('disconnect', () => this.end(exit_code, signal));
    else this.end(exit_code, signal);
  }

  protected override end(exit_code: number | null, signal: string | null): void {
    const loss = this.loss(this.replies.size);
    super.end(exit_code, signal);
    for (const reply of this.replies.values()) reply.lose(loss);
    this.replies.clear();
  }

  private receive(message: FromEngine): void {
    const { report, started, load, log } = this.options;
    const { attempt, model, path } = started;
    const pid = this.child.pid ?? 0;
    switch (message.type) {
      case 'started':
        this.hasStarted = true;
        report({ type: 'engine.process_started', attempt, pid });
        this.send({ type: 'load', path, ...load, threads: started.threads ?? load.threads });
        break;
      case 'loaded': {
        const { type: _, ...loaded } = message;
        const { chat_template, template_problem } = loaded;
        this.threads = loaded.threads;
        this.isLoaded = true;
        if (template_problem !== undefined)
          log.warn(
            { model, template_problem, chat_template },
            chat_template === 'none'
              ? 'the chat template of the model cannot be rendered, so it continues texts'
              : 'the chat template of the model cannot be rendered, so another one is used',
          );
        report({ type: 'engine.model_loaded', attempt, info: { pid, model, path, ...loaded } });
        break;
      }
      case 'progress':
        this.loadedPart = message.loaded;
        break;
      case 'load_failed':
        this.fail(message.error);
        break;
      case 'output':
      case 'vector':
      case 'reading':
        this.replies.get(message.id)?.take(message);
        break;
      case 'finished':
      case 'failed':
      case 'stopped':
        this.replies.get(message.id)?.take(message);
        this.replies.delete(message.id);
        break;
      case 'prompt_file': {
        const { type: _, ...did } = message;
        this.options.prompts.note(model, did);
        break;
      }
      default:
        message satisfies never;
    }
  }

  private send(message: ToEngine): void {
    if (this.child.connected) this.child.send(message, () => {});
  }
}

const NOT_SENT = 'The request cannot be sent to the engine: it is nested too deeply.';

/**
 * Keeps the debugger closed in the first moment, before the engine handles SIGUSR1. Older versions
 * of Node do not know the option.
 */
const NO_DEBUGGER = ['--disable-sigusr1'].filter((option) =>
  process.allowedNodeEnvironmentFlags.has(option),
);

/** Bound of the JavaScript heap. Weights and contexts are outside it. */
const HEAP_MB = 1024;
/** Bound of each half of its young part. A token needs little of it, and more stays resident. */
const YOUNG_MB = 1;
const NODE_FLAGS = [
  `--max-old-space-size=${HEAP_MB}`,
  `--max-semi-space-size=${YOUNG_MB}`,
  ...NO_DEBUGGER,
];

/** In the same folder in the sources and in the build. */
const ENTRY = fileURLToPath(ENGINE);

/** Exit codes of `setpriv` for a program that did not start. */
const NOT_BEGUN: ReadonlySet<number | null> = new Set([126, 127]);
