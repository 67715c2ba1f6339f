import type { Effect } from '../../machines/effects.ts';
import type { EngineEvent } from '../../machines/engine.ts';
import { type EngineSnapshot, engineMachine } from '../../machines/engine.ts';
import type { NewEvent } from '../../machines/events.ts';
import { statePath } from '../../machines/step.ts';
import type { EnginePorts } from '../../src/providers/local/engines.ts';
import { driveStream, type StreamDriver } from './stream.ts';

export type EngineDriver = StreamDriver<EngineSnapshot, EngineEvent>;

/** The machines of the engines. As one machine, they are the one whose event came last. */
export interface EngineDrivers {
  ports: EnginePorts;
  /** By number, from 1. */
  all: Map<number, EngineDriver>;
  /** Every event of every engine, in order. */
  events: EngineEvent[];
  state(): string;
  snapshot(): EngineSnapshot;
  tryAppend(event: NewEvent<EngineEvent>): Promise<boolean>;
  fireDeadline(): Promise<void>;
  /** Refuses proposals, as a kernel with a failed store does. */
  fail(error: Error): void;
}

export function driveEngines(perform: (effect: Effect) => void): EngineDrivers {
  const all = new Map<number, EngineDriver>();
  const events: EngineEvent[] = [];
  let latest: EngineDriver | null = null;
  let failure: Error | null = null;
  const current = () => {
    if (latest === null) throw new Error('there is no engine yet');
    return latest;
  };
  const create = async (number: number) => {
    if (failure !== null) throw failure;
    const created = {
      type: 'engine.created',
      number,
      start_ms: 60_000,
      load_ms: 60_000,
      stop_ms: 10_000,
      kill_ms: 10_000,
      idle_ms: 60_000,
    } as const;
    const driver: EngineDriver = driveStream<EngineSnapshot, EngineEvent>({
      machine: engineMachine,
      created,
      perform,
    });
    all.set(number, driver);
    driver.subscribe(() => {
      latest = driver;
      events.push(driver.events.at(-1) as EngineEvent);
    });
    return driver;
  };
  return {
    ports: { create, forget: (number) => void all.delete(number) },
    all,
    events,
    state: () => (latest === null ? 'cold' : statePath(latest.snapshot())),
    snapshot: () => current().snapshot(),
    tryAppend: (event) => current().tryAppend(event),
    fireDeadline: () => current().fireDeadline(),
    fail: (error) => {
      failure = error;
      for (const driver of all.values()) driver.fail(error);
    },
  };
}
