import type * as v from 'valibot';
import { object, oneOf, text, time } from './vocabulary.ts';

/** A model that its provider answers with faults, so it is not asked for a while. */
export const faultyModel = object({
  model: text,
  state: oneOf(['unavailable', 'rate_limited', 'unauthorised', 'half_open']),
  reason: text,
  /** When it failed last. */
  since: time,
  /** When one request tries it. */
  retry_at: time,
});
export type FaultyModel = v.InferOutput<typeof faultyModel>;
