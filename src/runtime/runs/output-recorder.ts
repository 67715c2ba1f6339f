import type { NewEvent, RunEvent } from '../../../machines/events.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { RunKey } from '../../kernel/stream.ts';
import { endOfTurn } from '../../kernel/turn.ts';
import type { OutputPart } from '../../providers/port.ts';
import { OutputQueue, placeOf } from './output-queue.ts';

export interface OutputRecorderOptions {
  kernel: Kernel;
  run_id: RunKey;
  attempt: number;
  /** Characters that may wait for a commit. */
  characters_max: number;
  /** The run takes no more output, such as after a cancel. */
  onRefused(): void;
}

/**
 * Records the output of one attempt. It owns the pieces that are not proposed yet.
 *
 * 1. Pieces are proposed in their order.
 * 2. No timer makes batches. The pieces of one turn are proposed together, and so are those that
 *    arrive during a commit.
 * 3. `propose` takes what is left at once, so that the end of a run shares its commit.
 */
export class OutputRecorder {
  private readonly options: OutputRecorderOptions;
  private readonly waiting = new OutputQueue();
  private recording: Promise<void> | null = null;

  constructor(options: OutputRecorderOptions) {
    this.options = options;
  }

  /** Returns what to wait for before the next piece; null: nothing. */
  add(piece: Extract<OutputPart, { type: 'output' }>): Promise<void> | null {
    const { waiting } = this;
    waiting.add(piece);
    if (waiting.length > 0 && this.recording === null) {
      this.recording = this.record();
      // An append that fails is reported to the next one, too.
      this.recording.catch(() => {});
    }
    return waiting.characters > this.options.characters_max ? this.recording : null;
  }

  /** Proposes all that waits. Resolves once it is durable. */
  async propose(): Promise<void> {
    const proposed: Promise<boolean>[] = [];
    for (let output = this.waiting.take(); output !== null; output = this.waiting.take())
      proposed.push(this.options.kernel.tryAppend(this.options.run_id, this.eventOf(output)));
    const taken = await Promise.all(proposed);
    if (taken.includes(false)) this.options.onRefused();
  }

  private async record(): Promise<void> {
    await endOfTurn();
    while (this.waiting.length > 0) await this.propose();
    this.recording = null;
  }

  private eventOf({
    threads,
    batched,
    model_file,
    prompt_parts,
    ...output
  }: NonNullable<ReturnType<OutputQueue['take']>>): NewEvent<RunEvent> {
    const { kernel, run_id, attempt } = this.options;
    const context = kernel.tail(run_id)?.context;
    return {
      type: 'run.output_appended',
      attempt,
      ...output,
      ...(kernel.omitsOutput && context !== undefined ? placeOf(output, context) : {}),
      ...(threads === undefined || threads === context?.threads ? {} : { threads }),
      ...(batched === true && context?.batched !== true ? { batched } : {}),
      ...(model_file === undefined || model_file === context?.model_file ? {} : { model_file }),
      ...(prompt_parts === undefined || context?.prompt_parts ? {} : { prompt_parts }),
    };
  }
}
