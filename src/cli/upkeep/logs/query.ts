import { LOG_LEVELS } from '../../../contract/words.ts';
import { SvcError } from '../../../errors.ts';
import { parseSince } from '../../../logs/filter.ts';
import type { TailQuery } from '../../../logs/tail.ts';
import type { Flags } from '../../terminal/context.ts';
import { choiceFlag, textFlag, wholeFlag } from '../../terminal/parse/flag-values.ts';

export interface LogQuery extends TailQuery {
  follow: boolean;
}

const LINES_MAX = 10_000_000;
const LINES_DEFAULT = 100;

/** The lines to print. A bare --tail follows, as `tail -f` does. */
export function readQuery(flags: Flags): LogQuery {
  const bare = flags.tail === true;
  const level = choiceFlag(flags, 'level', LOG_LEVELS);
  const run = readRun(textFlag(flags, 'run'));
  const since = readSince(textFlag(flags, 'since'));
  return {
    lines: bare
      ? LINES_DEFAULT
      : (wholeFlag(flags, 'tail', { min: 0, max: LINES_MAX }) ?? LINES_DEFAULT),
    follow: bare || flags.follow === true,
    ...(level === undefined ? {} : { level }),
    ...(run === undefined ? {} : { run }),
    ...(since === undefined ? {} : { since }),
  };
}

function readRun(text: string | undefined): string | undefined {
  if (text === undefined || RUN_ID.test(text)) return text;
  throw new SvcError('usage', `--run must be the id of a run, not ${JSON.stringify(text)}.`, {
    param: 'run',
  });
}

/** The ids that the daemon accepts. */
const RUN_ID = /^[\w-]{1,80}$/;

function readSince(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const since = parseSince(text, Date.now());
  if (since === null)
    throw new SvcError(
      'usage',
      '--since must be an RFC 3339 time or an age such as 10m, 2h, 1d, not ' +
        `${JSON.stringify(text)}.`,
      { param: 'since' },
    );
  // RFC 3339, the format of the request, cannot express other years.
  if (since < YEAR_0 || since > YEAR_9999)
    throw new SvcError('usage', `--since ${text} is not within the years 0 to 9999.`, {
      param: 'since',
    });
  return since;
}

const YEAR_0 = Date.parse('0000-01-01T00:00:00.000Z');
const YEAR_9999 = Date.parse('9999-12-31T23:59:59.999Z');
