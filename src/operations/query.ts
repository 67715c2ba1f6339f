import * as v from 'valibot';
import { check, invalidRequest } from '../contract/check.ts';
import { WORDS_MAX } from '../contract/inputs.ts';
import {
  digits,
  name,
  oneOf,
  position,
  positionOrZero,
  query,
  truth,
} from '../contract/vocabulary.ts';
import { byFilter, LOG_LEVELS } from '../contract/words.ts';

/**
 * The parameters of each request target, as HTTP and WebSocket requests and the OpenAPI document
 * have them.
 */

export const noQuery = query({});
export const atQuery = query({ at: v.exactOptional(position) });
export const fromQuery = query({ from: v.exactOptional(positionOrZero) });
export type FromQuery = v.InferOutput<typeof fromQuery>;
export const exportQuery = query({ redact: v.exactOptional(truth) });

export const runListQuery = (limitMax: number) =>
  query({
    limit: v.exactOptional(digits(1, limitMax)),
    /** The page starts with the run before this one. */
    before: v.exactOptional(name()),
    ...byFilter(
      v.exactOptional(name()),
      (words) => v.exactOptional(oneOf(words)),
      v.exactOptional(truth),
    ),
    /**
     * `short`, the default: the beginning of texts, and no long lists; a run that was cut is
     * `shortened`. `whole`: a page ends where its texts are large.
     */
    texts: v.exactOptional(oneOf(['whole', 'short'])),
  });

/** Not more than this many wait: each belongs to a run that is not over. */
export const APPROVALS_MAX = 1_000_000;

export const approvalListQuery = query({
  /** The newest ones alone. Absent: all. */
  limit: v.exactOptional(digits(1, APPROVALS_MAX)),
});

export const conversationListQuery = (limitMax: number) =>
  query({
    limit: v.exactOptional(digits(1, limitMax)),
    /** The page starts with the conversation whose newest run is before this one. */
    before: v.exactOptional(name()),
    /** Only the conversation of this run. */
    conversation: v.exactOptional(name()),
  });

/** A page has fewer: see `page_runs`. */
const RUNS_MAX = 1000;

export const runSearchQuery = query({
  /** Words, or several words in quotes. */
  words: name(WORDS_MAX),
  limit: v.exactOptional(digits(1, RUNS_MAX)),
  /** The page starts with the run before this one. */
  before: v.exactOptional(name()),
});

export const usageQuery = query({
  /** An RFC 3339 time. Runs that ended before its hour are not counted. */
  since: v.exactOptional(v.pipe(v.string(), v.isoTimestamp('must be an RFC 3339 time.'))),
  by: v.exactOptional(oneOf(['model', 'provider', 'client', 'day'])),
});

const PREFIX = v.pipe(
  v.string(),
  v.regex(/^[\w:.@/-]{0,200}\*?$/, 'must be a name, or the beginning of a name followed by *.'),
);
export const eventQuery = query({
  from: v.exactOptional(positionOrZero),
  follow: v.exactOptional(truth),
  stream: v.exactOptional(PREFIX),
  type: v.exactOptional(PREFIX),
});

export const logQuery = (linesMax: number) =>
  query({
    tail: v.exactOptional(digits(0, linesMax)),
    follow: v.exactOptional(truth),
    level: v.exactOptional(oneOf(LOG_LEVELS)),
    run: v.exactOptional(v.pipe(v.string(), v.regex(/^[\w-]{1,80}$/, 'must be the id of a run.'))),
    /** An RFC 3339 time, or an age such as 10m. */
    since: v.exactOptional(name(64)),
  });

/** A page names the secret that it knows, and sends a random value. */
export const proofQuery = query({
  by: v.pipe(
    v.string(),
    v.regex(
      /^(token|session\.[\w-]{22}|ticket\.[\w-]{43})$/,
      'must be token, session.<id> or ticket.<digest>.',
    ),
  ),
  nonce: v.pipe(v.string(), v.regex(/^[\w-]{22,86}$/, 'must be 22 to 86 characters of base64url.')),
});

/**
 * Reads the parameters after the `?`. Throws invalid_request for a parameter that is unknown,
 * repeated or wrong.
 */
export function readQuery<S extends v.GenericSchema<unknown, object>>(
  target: string,
  schema: S,
): v.InferOutput<S> {
  const parameters: Record<string, string> = Object.create(null);
  for (const [name, value] of new URLSearchParams(target.split('?').slice(1).join('?'))) {
    if (name in parameters) throw invalidRequest(name, `${name} is given more than once.`);
    parameters[name] = value;
  }
  return check(schema, parameters);
}
