import * as v from 'valibot';
import { digits, oneOf, query, truth } from '../../../contract/vocabulary.ts';

/** Queries of the Responses API. svc leaves nothing out, so `include` changes nothing. */

const include = { include: v.exactOptional(v.string()), 'include[]': v.exactOptional(v.string()) };

export const responseQuery = query({
  stream: v.exactOptional(truth),
  /** The events after this number. */
  starting_after: v.exactOptional(digits(0, Number.MAX_SAFE_INTEGER)),
  include_obfuscation: v.exactOptional(truth),
  ...include,
});
export type ResponseQuery = v.InferOutput<typeof responseQuery>;

export const itemsQuery = query({
  limit: v.exactOptional(digits(1, 100)),
  order: v.exactOptional(oneOf(['asc', 'desc'])),
  /** The id of the last item of the page before. */
  after: v.exactOptional(v.string()),
  ...include,
});
export type ItemsQuery = v.InferOutput<typeof itemsQuery>;
