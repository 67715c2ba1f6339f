import type { LogQuery } from '../../contract/contract.ts';
import { eventQuery, readQuery } from '../query.ts';

/**
 * `?from=<seq>&follow=1&stream=<name or prefix*>&type=<name or prefix*>`. Throws invalid_request
 * with the name of the parameter.
 */
export function parseEventQuery(target: string): LogQuery {
  const { from, follow = false, ...query } = readQuery(target, eventQuery);
  return { ...query, follow, ...(from === undefined ? {} : { from_seq: from }) };
}
