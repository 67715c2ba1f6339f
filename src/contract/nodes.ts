import * as v from 'valibot';
import { orNull } from './records.ts';
import { flag, named, object, oneOf, text, time, whole } from './vocabulary.ts';

/** One daemon of a fleet. */
export const node = named(
  'Node',
  object({
    id: text,
    /** `late`: its lease has ended, and no node has taken it over yet. `lost`: one has. */
    state: oneOf(['active', 'draining', 'late', 'lost', 'left']),
    since: time,
    /** Runs that it may have at one time, and those that it has. */
    capacity: whole,
    runs: whole,
    version: text,
    host: text,
    /** Null: it has no lease. */
    lease_until: orNull(time),
    /** How far its clock is ahead of that of the database. Null: not known. */
    clock_ms: orNull(whole),
    /** False: its clock is too far from that of the database. */
    takes_runs: flag,
  }),
);
export type NodeRecord = v.InferOutput<typeof node>;

/** Empty where the daemon is not in a fleet. */
export const nodeList = named('Nodes', object({ nodes: v.array(node) }));
export type NodeList = v.InferOutput<typeof nodeList>;
