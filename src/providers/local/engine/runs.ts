import type { LlamaContextSequence } from 'node-llama-cpp';
import { asSvcError } from '../../../errors.ts';
import { ContextPause } from './context-pause.ts';
import { generate } from './generate.ts';
import type { LoadedModel } from './load.ts';
import type { FromEngine, RunOrder } from './messages.ts';
import { OutputBatcher } from './output-batcher.ts';
import { promptTokens } from './prompt.ts';

/**
 * The active runs in the one context, and the runs that wait for a sequence.
 *
 * 1. A run owns one sequence of the context from its start to its end.
 * 2. Each order gets outputs, then exactly one of finished, failed and stopped. After it nothing is
 *    computed.
 *
 * The daemon bounds its open orders, and so the waiting ones.
 */
export class Runs {
  private readonly loaded: LoadedModel;
  private readonly send: (message: FromEngine) => void;
  private readonly free: LlamaContextSequence[];
  private readonly active = new Map<number, AbortController>();
  private readonly pause = new ContextPause();
  private waiting: RunOrder[] = [];

  constructor(loaded: LoadedModel, send: (message: FromEngine) => void) {
    this.loaded = loaded;
    this.send = send;
    this.free = [...loaded.sequences];
  }

  start(order: RunOrder): void {
    if (order.only_count) {
      this.send(this.count(order));
      return;
    }
    const sequence = this.free.pop();
    if (sequence === undefined) this.waiting.push(order);
    else void this.answer(order, sequence);
  }

  stop(id: number): void {
    this.active.get(id)?.abort();
    const waiting = this.waiting.filter((order) => order.id !== id);
    if (waiting.length < this.waiting.length) this.send({ type: 'stopped', id });
    this.waiting = waiting;
  }

  /** Needs no sequence, so it never waits for a run. */
  private count(order: RunOrder): FromEngine {
    const { id } = order;
    try {
      const input_tokens = promptTokens(this.loaded, order).length;
      const usage = { input_tokens, output_tokens: 0 };
      return { type: 'finished', id, finish_reason: 'stop', usage };
    } catch (thrown) {
      return { type: 'failed', id, error: asSvcError(thrown, 'engine_failed').summary() };
    }
  }

  private async answer(order: RunOrder, sequence: LlamaContextSequence): Promise<void> {
    const abort = new AbortController();
    this.active.set(order.id, abort);
    this.send(await this.outcome(order, sequence, abort.signal));
    this.active.delete(order.id);
    this.free.push(sequence);
    const next = this.waiting.shift();
    if (next !== undefined) this.start(next);
  }

  private async outcome(
    order: RunOrder,
    sequence: LlamaContextSequence,
    signal: AbortSignal,
  ): Promise<FromEngine> {
    const { id } = order;
    const { loaded, pause } = this;
    const output = new OutputBatcher((piece) => this.send({ type: 'output', id, ...piece }));
    try {
      if (sequence.nextTokenIndex > 0) await pause.run(() => sequence.clearHistory());
      const finish = await generate({ loaded, sequence, order, pause, signal, output });
      return finish === null ? { type: 'stopped', id } : { type: 'finished', id, ...finish };
    } catch (thrown) {
      const error = asSvcError(thrown, 'engine_failed');
      if (error.code === 'engine_failed') console.error(`run ${id}:`, error.cause ?? error);
      return { type: 'failed', id, error: error.summary() };
    } finally {
      output.flush();
    }
  }
}
