import * as v from 'valibot';
import { completed, failure, output } from '../../contract/events.ts';
import { engineLoaded } from '../../contract/loaded-models.ts';
import type { TokenLogprob } from '../../contract/messages/parts.ts';
import { reading } from '../../contract/reading.ts';

/**
 * Messages of an engine process. Each order gets outputs, vectors or a reading, then exactly one of
 * finished, failed and stopped. The daemon checks them, because an engine runs native code on any
 * file.
 */

const id = v.pipe(v.number(), v.integer(), v.minValue(0));
const message = <T extends string, E extends v.ObjectEntries>(type: T, entries: E) =>
  v.object({ type: v.literal(type), ...entries });

/** A piece of an answer, with its tokens. The daemon knows the rest of an output. */
const { attempt: _, offset: __, part: ___, model_file: ____, ...piece } = output.entries;
const logprobs = v.array(v.any()) as unknown as v.GenericSchema<TokenLogprob[]>;
const outputs = v.object({ ...piece, logprobs: v.exactOptional(logprobs) });

const fromEngine = v.variant('type', [
  message('started', {}),
  /** The part of the model that is loaded, from 0 to 1. */
  message('progress', { loaded: v.number() }),
  message('loaded', engineLoaded.entries),
  message('load_failed', { error: failure }),
  message('output', { id, ...outputs.entries }),
  /** Of the next text of the order. */
  message('vector', { id, vector: v.array(v.number()) }),
  message('reading', { id, ...reading.entries }),
  message('finished', { id, ...completed.entries }),
  message('failed', { id, error: failure }),
  message('stopped', { id }),
  /** What happened to the file of a computed prompt. `run`: who left the sequence so. */
  message('prompt_file', {
    did: v.picklist(['written', 'used', 'removed']),
    file: v.string(),
    run: v.string(),
    tokens: v.number(),
    bytes: v.number(),
    /** The run that uses it. */
    used_by: v.exactOptional(v.string()),
    reason: v.exactOptional(v.string()),
  }),
]);
export type PromptReport = Omit<Extract<FromEngine, { type: 'prompt_file' }>, 'type'>;
export type FromEngine = v.InferOutput<typeof fromEngine>;
export type Output = v.InferOutput<typeof outputs>;

/** Null: not a message of the engine. */
export function parseFromEngine(value: unknown): FromEngine | null {
  return v.is(fromEngine, value) ? value : null;
}
