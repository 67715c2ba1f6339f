import {
  makeRoom,
  type RoomBounds,
  restEnds,
  type TurnLimits,
  turnEnds,
} from '../../../machines/engine-room.ts';
import type { Occupant } from '../../../machines/runs-to-start.ts';
import type { Fit } from '../../contract/model-record.ts';
import { SvcError } from '../../errors.ts';
import {
  type ContextPlan,
  fitOf,
  freeMemory,
  type MemoryThere,
  type ModelShape,
  planFor,
} from '../../models/index.ts';
import type { ModelEngine } from './model-engine.ts';

interface Reservation {
  bytes: number;
  parallel: number;
  /** The attempt of the engine that uses it. */
  attempt: number;
}

export interface ModelMemoryOptions {
  bounds: RoomBounds;
  /** Of one engine, besides its weights. */
  engine_bytes: number;
  turns: TurnLimits;
  /** Whether a run waits for the model. */
  isWanted(path: string): boolean;
  /** Milliseconds since the epoch, as in the events of the engines. */
  now(): number;
  /** Bytes of memory that are free. Absent: those of this machine. */
  free?: (() => number) | undefined;
}

interface Waiter extends Reservation {
  engine: ModelEngine;
  grant(): void;
}

/**
 * The memory for models. It owns the reservations of the engines, and the waiters.
 *
 * 1. An engine has at most one reservation: from before its load until its process has exited.
 * 2. The reservations together stay within the bounds.
 * 3. Waiters are served in order. Only engines without work make room.
 */
export class ModelMemory {
  readonly bounds: RoomBounds;
  private readonly options: ModelMemoryOptions;
  private readonly reserved = new Map<ModelEngine, Reservation>();
  private waiters: Waiter[] = [];
  private serving = false;
  private changed = false;

  constructor(options: ModelMemoryOptions) {
    this.options = options;
    this.bounds = options.bounds;
  }

  get usedBytes(): number {
    return [...this.reserved.values()].reduce((sum, { bytes }) => sum + bytes, 0);
  }

  reservedBytes(engine: ModelEngine): number | null {
    return this.reserved.get(engine)?.bytes ?? null;
  }

  /** Engines with a reservation, and those that wait for one. */
  residents(now: number): Occupant[] {
    const waiting = this.waiters.map(({ engine, bytes }) => ({ engine, bytes, busy: true }));
    const present = [...this.reserved].map(([engine, { bytes }]) => ({
      engine,
      bytes,
      busy: engine.waiting > 0 || !engine.snapshot.hasTag('free'),
    }));
    return [...waiting, ...present].map(({ engine, bytes, busy }) => ({
      model: engine.key,
      bytes,
      busy,
      in_turn: now < turnEnds(engine.turn, this.options.turns),
      resting: now < restEnds(engine.turn),
      used_at: engine.usedAt,
      loaded_at: engine.turn.loaded_at ?? Number.POSITIVE_INFINITY,
    }));
  }

  /** The next end of a rest. Null: no model rests. */
  restEnds(now: number): number | null {
    const ends = [...this.reserved.keys()].map(({ turn }) => restEnds(turn));
    const next = Math.min(...ends.filter((at) => at > now));
    return next === Number.POSITIVE_INFINITY ? null : next;
  }

  /** The most parallel runs that fit, with their needs. These may exceed the bound. */
  plan(shape: ModelShape, wanted: ContextPlan): { parallel: number; bytes: number } {
    const { bounds, engine_bytes } = this.options;
    return planFor(shape, wanted, { bytes: bounds.bytes, engine_bytes });
  }

  /** Whether the model fits. What other models have counts as free: they can leave. */
  fit(
    model: ModelShape | { weights: number },
    wanted: ContextPlan,
    gpu: Pick<MemoryThere, 'gpu_bytes' | 'gpu_layers'>,
  ): Fit {
    const { bounds, engine_bytes, free = freeMemory } = this.options;
    const free_bytes = free() + this.usedBytes;
    return fitOf(model, wanted, { bytes: bounds.bytes, engine_bytes, free_bytes, ...gpu });
  }

  /** Throws model_too_large, or the signal's reason. */
  async reserve(
    engine: ModelEngine,
    shape: ModelShape,
    wanted: ContextPlan,
    signal: AbortSignal,
  ): Promise<{ parallel: number }> {
    signal.throwIfAborted();
    const plan = this.plan(shape, wanted);
    if (plan.bytes > this.bounds.bytes) throw this.tooLarge(engine, plan.bytes);
    const { promise: granted, resolve: grant } = Promise.withResolvers<void>();
    const waiter = { ...plan, engine, attempt: engine.snapshot.context.attempt + 1, grant };
    const { promise: aborted, reject } = Promise.withResolvers<never>();
    const abort = () => reject(signal.reason);
    signal.addEventListener('abort', abort);
    this.waiters.push(waiter);
    try {
      this.serveSoon();
      await Promise.race([granted, aborted]);
      return { parallel: plan.parallel };
    } catch (error) {
      this.reserved.delete(engine);
      throw error;
    } finally {
      signal.removeEventListener('abort', abort);
      this.waiters = this.waiters.filter((other) => other !== waiter);
      this.serveSoon();
    }
  }

  /** Call it after each event of an engine. */
  note(engine: ModelEngine): void {
    const { snapshot } = engine;
    const reservation = this.reserved.get(engine);
    const isOver = snapshot.hasTag('absent') || snapshot.hasTag('failing');
    if (reservation !== undefined && isOver && snapshot.context.attempt === reservation.attempt)
      this.reserved.delete(engine);
    this.serveSoon();
  }

  /** An estimate may have been too small. The measured memory counts, even beyond the bounds. */
  grow(engine: ModelEngine, attempt: number, bytes: number): void {
    const reservation = this.reserved.get(engine);
    if (reservation?.attempt === attempt) reservation.bytes = Math.max(reservation.bytes, bytes);
  }

  /** Frees the memory that the load of this attempt did not use. */
  release(engine: ModelEngine, attempt: number): void {
    if (this.reserved.get(engine)?.attempt === attempt) this.reserved.delete(engine);
    this.serveSoon();
  }

  private serveSoon(): void {
    // The waiters need not learn that an event could not be recorded: their own will fail too.
    this.serve().catch(() => {});
  }

  /** Serves the waiters in order, until one must wait for an event. */
  private async serve(): Promise<void> {
    this.changed = true;
    if (this.serving) return;
    this.serving = true;
    try {
      while (this.changed) {
        this.changed = false;
        const [first] = this.waiters;
        if (first !== undefined) await this.serveFirst(first);
      }
    } finally {
      this.serving = false;
    }
  }

  private async serveFirst(first: Waiter): Promise<void> {
    const present = [...this.reserved.keys()].filter((engine) => engine !== first.engine);
    const used = present.reduce((sum, engine) => sum + (this.reservedBytes(engine) ?? 0), 0);
    if (present.length < this.bounds.models && used + first.bytes <= this.bounds.bytes) {
      const { bytes, parallel, attempt } = first;
      this.reserved.set(first.engine, { bytes, parallel, attempt });
      this.waiters.shift();
      this.changed = true;
      first.grant();
      return;
    }
    // Engines that end their process count as gone.
    const staying = present.filter((engine) => !engine.snapshot.hasTag('leaving'));
    const paths = new Map(staying.map((engine) => [engine.key, engine]));
    const residents = this.residents(this.options.now())
      .filter(({ model }) => paths.has(model))
      .map((each) => ({ ...each, wanted: each.resting || this.options.isWanted(each.model) }));
    for (const { model } of makeRoom(first.bytes, residents, this.bounds) ?? [])
      await paths.get(model)?.unload('room');
  }

  private tooLarge(engine: ModelEngine, bytes: number): SvcError {
    const { id } = engine.model;
    const loaded = [...this.reserved]
      .filter(([other]) => other !== engine)
      .map(([other, reservation]) => ({ id: other.model.id, bytes: reservation.bytes }));
    const also =
      loaded.length === 0
        ? 'No other model is loaded.'
        : `Loaded: ${loaded.map((other) => `${other.id} (${mib(other.bytes)})`).join(', ')}.`;
    return new SvcError(
      'model_too_large',
      `The model ${id} needs about ${mib(bytes)} of memory, but models may use ` +
        `${mib(this.bounds.bytes)} together (models_memory_bytes). ${also}`,
      {
        param: 'model',
        retryable: false,
        details: { needs_bytes: bytes, budget_bytes: this.bounds.bytes, loaded },
      },
    );
  }
}

function mib(bytes: number): string {
  return `${Math.ceil(bytes / (1024 * 1024))} MiB`;
}
