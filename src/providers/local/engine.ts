import type { Effects } from '../../../machines/effects.ts';
import type { EngineEvent, EngineSnapshot } from '../../../machines/engine.ts';
import { noTurn } from '../../../machines/engine-room.ts';
import type { NewEvent } from '../../../machines/events.ts';
import { isIn } from '../../../machines/step.ts';
import { Notifier } from '../../async/notifier.ts';
import { keyOf, type Purpose } from '../../engine/index.ts';
import { SvcError } from '../../errors.ts';
import type { ContextPlan } from '../../models/index.ts';
import type { Log, StreamPort } from '../../ports/log.ts';
import { type EngineChild, startFailureOf } from './engine-child.ts';
import { type ModelFile, variantOf } from './model-files.ts';
import type { Tenant } from './residency.ts';

/** The machine of an engine. */
export type EnginePort = StreamPort<EngineSnapshot, EngineEvent>;

/**
 * The engine of a model for one purpose: its machine, and the process that it has now.
 *
 * 1. Only effects of the machine start, stop or kill the process.
 * 2. The machine is busy from before the first order of the process until after its last.
 */
export class Engine implements Tenant {
  readonly model: ModelFile;
  readonly purpose: Purpose;
  readonly wanted: ContextPlan;
  readonly line: object[] = [];
  /** Notified of each event, of granted memory, and of callers that left the line. */
  readonly changes = new Notifier();
  used_at = 0;
  turn = noTurn;
  process: EngineChild | null = null;
  /** The identity of the file that the process has, or loads. */
  file: Promise<string | null> = Promise.resolve(null);
  private readonly port: EnginePort;
  private readonly log: Log;

  constructor(
    { model, purpose, wanted }: Pick<Engine, 'model' | 'purpose' | 'wanted'>,
    port: EnginePort,
    log: Log,
  ) {
    [this.model, this.purpose, this.wanted] = [model, purpose, wanted];
    [this.port, this.log] = [port, log];
  }

  get key(): string {
    return keyOf(this.model.path, this.purpose, variantOf(this.model));
  }

  get snapshot(): EngineSnapshot {
    return this.port.snapshot();
  }

  /** How much of the model is loaded, from 0 to 1. Null: it is not being loaded. */
  get progress(): number | null {
    return this.isLoading ? (this.process?.progress ?? 0) : null;
  }

  /** Before the first event there is no machine. */
  get isLoading(): boolean {
    return (this.snapshot as EngineSnapshot | undefined)?.hasTag('loading') === true;
  }

  /** Starts the next process, once a load has prepared it. */
  spawn: (started: Effects['startEngine']) => EngineChild = () => {
    throw new SvcError('engine_failed');
  };

  start(started: Effects['startEngine']): void {
    const { attempt } = started;
    if (this.process?.attempt === attempt) return;
    try {
      this.process = this.spawn(started);
    } catch (error) {
      this.log.warn({ err: error }, 'trouble with the engine process');
      void this.report({ type: 'engine.load_failed', attempt, error: startFailureOf(error) });
      this.find(attempt);
    }
  }

  /** The process of an attempt. Null: it has gone, and the machine hears so. */
  find(attempt: number): EngineChild | null {
    if (this.process?.attempt === attempt) return this.process;
    void this.report({ type: 'engine.exited', attempt, exit_code: null, signal: null });
    return null;
  }

  async beginWork(process: EngineChild): Promise<boolean> {
    this.used_at = performance.now();
    if (!process.enter() || (await this.propose({ type: 'engine.work_started' }))) return true;
    process.leave();
    return false;
  }

  /** `idle_ms`: how long the model stays from now on. Undefined: as long as before. */
  async endWork(process: EngineChild, idle_ms: number | undefined): Promise<void> {
    if (!process.leave()) return;
    const isKnown = idle_ms === undefined || idle_ms === this.snapshot.context.idle_ms;
    await this.report({ type: 'engine.work_finished', ...(isKnown ? {} : { idle_ms }) });
  }

  /** Ends the process if it has no work. False: it has some. */
  async unload(reason: 'room' | 'requested'): Promise<boolean> {
    if (this.line.length > 0 || isIn(this.snapshot, 'busy')) return false;
    if (this.snapshot.hasTag('free') || this.isLoading)
      await this.propose({ type: 'engine.stop_requested', reason });
    return true;
  }

  /** Kills the process without the machine, for when no events can be appended. */
  async close(): Promise<void> {
    this.process?.kill();
    await this.process?.gone;
  }

  /** Proposes an event. False: the machine refuses it. */
  propose(event: NewEvent<EngineEvent>): Promise<boolean> {
    return this.port.tryAppend(event);
  }

  /** Resolves when the event is recorded, or refused. Never rejects. */
  async report(event: NewEvent<EngineEvent>): Promise<void> {
    await this.propose(event).catch((error: unknown) =>
      this.log.debug({ err: error, event: event.type }, 'a event of the engine was not recorded'),
    );
  }
}
