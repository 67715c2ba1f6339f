import type * as v from 'valibot';
import { object, oneOf, text, time } from './vocabulary.ts';

/** A model whose requests fail at its provider, so it gets none for a while. */
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
