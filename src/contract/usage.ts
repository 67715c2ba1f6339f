import * as v from 'valibot';
import { large, named, object, oneOf, text, time, whole } from './vocabulary.ts';

/** The usage of runs and embeddings: the request, and the answer. */

export const usageInput = {
  /** Runs that ended before this time are not counted. Whole hours are; before 3 days, days. */
  since: v.nullish(time),
  by: v.nullish(oneOf(['model', 'provider', 'client', 'day'])),
};
export type UsageInput = v.InferOutput<v.ObjectSchema<typeof usageInput, undefined>>;

const group = object({
  name: text,
  runs: whole,
  /** Requests for embeddings. Only those at cloud providers are counted. */
  embeddings: whole,
  input_tokens: whole,
  output_tokens: whole,
  /** Input tokens that providers had in their caches. */
  cached_tokens: whole,
  /** Input tokens that they wrote into them. */
  cache_write_tokens: whole,
  /** Runs whose provider did not say all numbers, so they are estimated. */
  estimated_runs: whole,
  /** The same of requests for embeddings. */
  estimated_embeddings: whole,
  /** Each run keeps the price of its acceptance. Without the models that have no price. */
  cost: v.number(),
  /** The part of it that had no price then, as in logs of older versions. */
  cost_at_present_prices: v.number(),
  /** Models at cloud providers that have no price. */
  without_price: v.array(text),
});

export const usageRecord = named(
  'Usage',
  object({
    by: text,
    /** The first hour of these sums. Null: no run has ended. */
    since: v.nullable(time),
    /** Since when runs are counted. Removed history stays counted. */
    covers_since: v.nullable(time),
    currency: text,
    groups: v.array(group),
    total: group,
    /** Today (UTC), at cloud providers. */
    budget: object({
      per_day: v.nullable(v.number()),
      tokens_per_day: v.nullable(whole),
      spent: v.number(),
      spent_tokens: whole,
      resets_at: time,
    }),
  }),
);
export type UsageRecord = v.InferOutput<typeof usageRecord>;

/** The sums of the runs of a conversation. */
export const conversationUsage = named(
  'ConversationUsage',
  object({
    conversation: text,
    /** Runs that have ended. */
    runs: whole,
    input_tokens: large,
    output_tokens: large,
    /** Input tokens that providers had in their caches. */
    cached_tokens: large,
    /** Runs whose provider did not say all numbers. */
    unknown: whole,
  }),
);
export type ConversationUsage = v.InferOutput<typeof conversationUsage>;
