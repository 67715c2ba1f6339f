import * as v from 'valibot';
import {
  engine,
  event,
  orNull,
  provider,
  providerFields,
  queue,
  stateFields,
  status,
} from './records.ts';
import { shortenedRun } from './run.ts';
import { flag, named, object, oneOf, text, time, whole } from './vocabulary.ts';

/** Answers about machines and about earlier positions of the log. */

/** One living machine: its state, and since when. */
export const instance = named(
  'Instance',
  object({
    stream: text,
    machine: text,
    ...stateFields,
    since: time,
    /** How many events its stream has. */
    version: whole,
    /** Position of its last event in the log. */
    seq: whole,
  }),
);
export type InstanceRecord = v.InferOutput<typeof instance>;

export const machines = named(
  'Machines',
  object({
    machines: v.array(
      object({
        name: text,
        initial: text,
        mermaid: text,
        instances: v.array(instance),
        states: v.array(
          object({
            path: text,
            /** The state or group around it; empty at the outermost level. */
            parent: text,
            /** A group only shares transitions. It is in no state path. */
            type: oneOf(['atomic', 'compound', 'group', 'final']),
            tags: v.array(text),
            /** The inner state that is entered first; null without inner states. */
            initial: orNull(text),
            /** Effects on entry. */
            effects: v.array(text),
            /** The deadline that it names itself; null without one. */
            deadline: orNull(text),
          }),
        ),
        transitions: v.array(
          object({
            source: text,
            event: text,
            target: text,
            guard: orNull(text),
            actions: v.array(text),
          }),
        ),
      }),
    ),
    seq: whole,
  }),
);
export type MachinesRecord = v.InferOutput<typeof machines>;

/** A provider as its events describe it. Only the present has what comes from the configuration. */
const providerState = object({
  ...providerFields,
  state_path: text,
  retry_at: v.exactOptional(provider.entries.retry_at),
  transitions: v.exactOptional(provider.entries.transitions),
  credential: v.exactOptional(text),
  default: v.exactOptional(flag),
});
export type ProviderState = v.InferOutput<typeof providerState>;

const engineState = object({ ...engine.entries, state_path: text });
export type EngineState = v.InferOutput<typeof engineState>;

/** A run of a snapshot; `shortened`: the snapshot has the beginning of its texts. */
export type ShortenedRun = v.InferOutput<typeof shortenedRun>;

const { home: _, runs, ...statusFields } = status.entries;

/** The daemon with all its unfinished work, now or at an earlier position of the log. */
export const stateSnapshot = named(
  'StateSnapshot',
  object({
    seq: whole,
    at: time,
    boot_id: text,
    /** The end of the log and its beginning. Retention removed what is older. */
    last_seq: whole,
    first_seq: whole,
    status: object({
      ...statusFields,
      /** `finished` is null for an earlier position, at which it is not known. */
      runs: object({ ...runs.entries, finished: orNull(whole) }),
    }),
    instances: v.array(instance),
    /** Unfinished runs, and those that ended in the minute before. */
    runs: v.array(shortenedRun),
    queue,
    providers: v.array(providerState),
    engine: engineState,
    engines: v.array(engineState),
  }),
);
export type StateSnapshot = v.InferOutput<typeof stateSnapshot>;

/** How a run came to its state. */
export const runWhy = named(
  'Why',
  object({
    run_id: text,
    /** Only the first and the last of outputs in a row; `left_out` counts those between. */
    events: v.array(
      object({ ...event.entries, state_path: text, left_out: v.exactOptional(whole) }),
    ),
    /** The same in sentences. */
    explanation: v.array(text),
    /** False when retention removed the run's first events. */
    complete: flag,
  }),
);
export type RunWhyRecord = v.InferOutput<typeof runWhy>;
