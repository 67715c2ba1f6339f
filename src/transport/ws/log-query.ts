import { invalidRequest } from '../../contract/check.ts';
import type { Limits } from '../../limits.ts';
import { parseSince } from '../../logs/filter.ts';
import type { TailQuery } from '../../logs/tail.ts';
import { logQuery, readQuery } from '../../operations/query.ts';

export interface LogQuery extends TailQuery {
  follow: boolean;
}

const DEFAULT_LINES = 100;

/**
 * `?tail=N&follow=1&level=…&run=…&since=…`. Throws invalid_request with the name of the parameter.
 */
export function parseLogQuery(target: string, limits: Limits, now: number): LogQuery {
  const {
    tail,
    since,
    follow = false,
    ...query
  } = readQuery(target, logQuery(limits.log_tail_lines));
  const after = since === undefined ? undefined : parseSince(since, now);
  if (after === null)
    throw invalidRequest('since', 'since must be an RFC 3339 time, or an age such as 10m.');
  return {
    ...query,
    follow,
    lines: tail ?? DEFAULT_LINES,
    ...(after === undefined ? {} : { since: after }),
  };
}
