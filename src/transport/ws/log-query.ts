import { LOG_LEVELS } from '../../config/config.ts';
import type { Limits } from '../../limits.ts';
import { parseSince } from '../../logs/filter.ts';
import type { TailQuery } from '../../logs/tail.ts';
import { wrong } from '../../runtime/fields.ts';
import { readQuery, readWhole, readWord } from '../query.ts';

export interface LogQuery extends TailQuery {
  follow: boolean;
}

const DEFAULT_LINES = 100;

/** `?tail=N&follow=1&level=…&run=…&since=…`. Throws invalid_request with the name of the parameter. */
export function parseLogQuery(target: string, limits: Limits, now: number): LogQuery {
  const query = readQuery(target, ['tail', 'follow', 'level', 'run', 'since']);
  const level = readWord(query, 'level', LOG_LEVELS);
  const run = query.get('run');
  if (run !== undefined && !/^[\w-]{1,80}$/.test(run))
    throw wrong('run', 'run must be the id of a run.');
  const sinceText = query.get('since');
  const since = sinceText === undefined ? undefined : parseSince(sinceText, now);
  if (since === null)
    throw wrong('since', 'since must be an RFC 3339 time, or an age such as 10m.');
  return {
    lines: readWhole(query, 'tail', { min: 0, max: limits.log_tail_lines }) ?? DEFAULT_LINES,
    follow: ['1', 'true'].includes(readWord(query, 'follow', ['0', '1', 'false', 'true']) ?? '0'),
    ...(level === undefined ? {} : { level }),
    ...(run === undefined ? {} : { run }),
    ...(since === undefined ? {} : { since }),
  };
}
