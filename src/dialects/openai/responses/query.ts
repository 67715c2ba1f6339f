import * as v from 'valibot';
import { invalidRequest } from '../../../contract/check.ts';
import { digits, oneOf, query, truth } from '../../../contract/vocabulary.ts';
import type { Item } from './items.ts';

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

/** The page that a query asks for. No more lists are read than it needs. */
export async function pageOf(
  lists: AsyncIterable<readonly Item[]> | Iterable<readonly Item[]>,
  { after, limit = 20 }: Pick<ItemsQuery, 'after' | 'limit'>,
): Promise<object> {
  const found: Item[] = [];
  let isFound = after === undefined;
  for await (const items of lists) {
    for (const item of items) {
      if (isFound) found.push(item);
      else isFound = item.id === after;
    }
    if (found.length > limit) break;
  }
  if (!isFound) throw invalidRequest('after', 'after must be the id of an item of this list.');
  return itemList(found.slice(0, limit), found.length > limit);
}

export function itemList(data: readonly Item[], has_more = false): object {
  const [first_id, last_id] = [data[0]?.id ?? null, data.at(-1)?.id ?? null];
  return { object: 'list', data, first_id, last_id, has_more };
}
