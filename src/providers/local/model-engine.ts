import type { Effects } from '../../../machines/effects.ts';
import { Answer, ReadReply, type Reply, Vectors } from './answer.ts';
import { ATTENTION, type EmbedOrder, type ReadOrder, type RunOrder } from './engine/messages.ts';
import type { Adapter } from './engine/native/adapters.ts';
import { EngineProcess } from './engine-process.ts';
import { ANY, type Needs } from './model-engine-options.ts';
import { ProcessEngine, type StartedWork } from './process-engine.ts';

export type Order = Omit<RunOrder, 'type' | 'id'>;
export type VectorsOrder = Omit<EmbedOrder, 'type' | 'id'>;
export type ReadingOrder = Omit<ReadOrder, 'type' | 'id'>;
export interface StartedAnswer extends Pick<StartedWork<EngineProcess>, 'waited'> {
  answer: Answer;
  stop(): void;
  /** The identity of the file that answers. */
  model_file: string | null;
}

/** The engine of one model file: llama.cpp. */
export class ModelEngine extends ProcessEngine<EngineProcess> {
  private identity: string | null = null;
  private templates: readonly string[] = [];
  private adapters: readonly Adapter[] = [];

  /**
   * Loads the model as it is needed and asks it for an answer. An abort asks the engine to stop;
   * then the answer ends.
   */
  async ask(order: Order, needs: Needs, signal: AbortSignal): Promise<StartedAnswer> {
    const { process, waited } = await this.takeForWork(needs, signal);
    const model_file = await this.file;
    const { id, reply } = process.ask(
      { type: 'run', ...order },
      (computing) => new Answer(computing),
    );
    return { answer: reply, stop: this.watch(process, id, reply, signal), waited, model_file };
  }

  /** Loads the model and asks it for vectors. An abort asks the engine to stop. */
  async embed(order: VectorsOrder, needs: Needs, signal: AbortSignal): Promise<Vectors> {
    const { process } = await this.takeForWork(needs, signal);
    const { id, reply } = process.ask({ type: 'embed', ...order }, () => new Vectors());
    this.watch(process, id, reply, signal);
    return reply;
  }

  /** Loads the model and has it read a text. An abort asks the engine to stop. */
  async read(order: ReadingOrder, signal: AbortSignal): Promise<ReadReply> {
    const { process } = await this.takeForWork(ANY, signal);
    const { id, reply } = process.ask({ type: 'read', ...order }, () => new ReadReply());
    this.watch(process, id, reply, signal);
    return reply;
  }

  /** Ends the work with its reply. Returns a function that stops it. */
  private watch(process: EngineProcess, id: number, reply: Reply, signal: AbortSignal): () => void {
    const stop = this.stopper(process, id, reply);
    signal.addEventListener('abort', stop);
    if (signal.aborted) stop();
    void reply.ended.then(() => {
      signal.removeEventListener('abort', stop);
      void this.endWork(process);
      if (reply.failure?.code === 'engine_timed_out')
        void this.options.guard.noteFailure(process, reply.failure);
    });
    return stop;
  }

  /** The built-in model answers short questions, which are computed at once. */
  protected override async prepare(): Promise<void> {
    const { built_in, model, templatesOf, adaptersOf } = this.options;
    this.identity = model.path === built_in ? null : await this.file;
    this.templates = await templatesOf(model);
    this.adapters = await adaptersOf(model);
  }

  protected spawn(started: Effects['startEngine']): EngineProcess {
    const { built_in, env, limits, log, prompts } = this.options;
    const { folder, budget_bytes } = prompts;
    const load = {
      ...this.options.load,
      templates: this.templates,
      adapters: this.adapters,
      parallel: this.parallel,
      context_tokens: started.context_tokens ?? this.options.load.context_tokens,
      ...(started.path === built_in
        ? { template_ms: null, gpu_layers: 0, attention: ATTENTION }
        : {}),
      ...(this.identity === null
        ? {}
        : { prompts: { folder, budget_bytes, model: this.identity } }),
    };
    return new EngineProcess({
      started,
      load,
      env,
      limits,
      log,
      prompts,
      report: (event) => this.report(event),
    });
  }

  /** Stops the whole engine if it does not stop the work in time. */
  private stopper(process: EngineProcess, id: number, { ended }: Reply): () => void {
    const { limits, log } = this.options;
    let timer: NodeJS.Timeout | null = null;
    return () => {
      if (timer !== null || !process.stopRun(id)) return;
      timer = setTimeout(() => {
        log.warn(
          { engine_attempt: process.attempt },
          'the engine does not stop its work, so it is stopped itself',
        );
        if (this.process === process)
          this.report({ type: 'engine.stop_requested', reason: 'requested' });
      }, limits.cancel_grace_ms);
      void ended.then(() => clearTimeout(timer ?? undefined));
    };
  }
}
