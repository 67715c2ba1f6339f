import { wrong } from '../../runtime/fields.ts';
import type { LogQuery } from '../../runtime/history/contract.ts';
import { readQuery, readWhole, readWord } from '../query.ts';

/** `?from=<seq>&follow=1&stream=<name or prefix*>&type=<name or prefix*>`. Throws invalid_request with the name of the parameter. */
export function parseEventQuery(target: string): LogQuery {
  const query = readQuery(target, ['from', 'follow', 'stream', 'type']);
  const from_seq = readWhole(query, 'from', { min: 0, max: Number.MAX_SAFE_INTEGER });
  const follow = ['1', 'true'].includes(
    readWord(query, 'follow', ['0', '1', 'false', 'true']) ?? '0',
  );
  const [stream, type] = [query.get('stream'), query.get('type')];
  for (const [name, value] of Object.entries({ stream, type }))
    if (value !== undefined && !NAME.test(value))
      throw wrong(name, `${name} must be a name, or the beginning of one with * after it.`);
  return {
    follow,
    ...(from_seq === undefined ? {} : { from_seq }),
    ...(stream === undefined ? {} : { stream }),
    ...(type === undefined ? {} : { type }),
  };
}

const NAME = /^[\w:.@/-]{0,200}\*?$/;
