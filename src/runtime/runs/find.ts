import { SvcError } from '../../errors.ts';
import type { EventStore } from '../../kernel/store/port.ts';

/** Queries for the ids of the runs of a log. */
export type RunNames = Pick<EventStore, 'runsNamed'> & {
  /** The newest run. */
  lastRun(): Promise<string | null>;
};

/**
 * The runs that one asker may name: all, or those of the token with this name. `last`: the asker
 * and the origin of the newest run.
 */
export function namesIn(
  { runsNamed, lastRun }: Pick<EventStore, 'runsNamed' | 'lastRun'>,
  { asked_by, last = asked_by, origin = null }: Names = {},
): RunNames {
  return {
    runsNamed: (prefix, limit) => runsNamed(prefix, limit, asked_by),
    lastRun: () => lastRun(origin, last),
  };
}

export interface Names {
  asked_by?: string | undefined;
  last?: string | null | undefined;
  origin?: string | null | undefined;
}

/** The word for the newest run. */
export const LAST = 'last';
const WHOLE = /^run_[0-9A-HJKMNP-TV-Z]{26}$/;
const BEGINNING = /^(run_)?[0-9A-HJKMNP-TV-Z]{1,26}$/i;
/** Ids that an error lists. */
const SHOWN_MAX = 5;

/** Whether it is a whole id, so that no lookup in a log is needed. */
export function isWholeId(written: string): boolean {
  return WHOLE.test(written);
}

/** Whether it may be one of the forms that `findRun` takes. */
export function mayBeId(written: string): boolean {
  return written === LAST || BEGINNING.test(written);
}

/**
 * The id of a run that a user wrote as `last`, or by its beginning. Another text is returned as it
 * is: no run has it. Throws run_unknown for `last` in an empty log, and run_ambiguous.
 */
export async function findRun(names: RunNames, written: string): Promise<string> {
  if (isWholeId(written)) return written;
  if (written === LAST) {
    const last = await names.lastRun();
    if (last === null)
      throw new SvcError('run_unknown', 'There is no run yet.', {
        param: 'id',
        hint: 'Start one with: svc run "…"',
      });
    return last;
  }
  if (!mayBeId(written)) return written;
  const prefix = `run_${written.replace(/^run_/i, '').toUpperCase()}`;
  const found = await names.runsNamed(prefix, SHOWN_MAX + 1);
  const [only = written] = found;
  if (found.length <= 1) return only;
  const more = found.length > SHOWN_MAX ? ', …' : '';
  throw new SvcError(
    'run_ambiguous',
    `Several runs begin with ${prefix}: ${found.slice(0, SHOWN_MAX).join(', ')}${more}.`,
    { param: 'id' },
  );
}
