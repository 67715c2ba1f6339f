import { BOUNDS, isTerminalEvent } from '../../../machines/run/context.ts';

const TYPES = BOUNDS.map((type) => `'${type}'`).join(', ');

/** The query of `runBounds`, with the table of events and the names of its parameters. */
export function boundsQuery(
  events: string,
  [boot_id, after, to]: readonly [string, string, string],
): string {
  return `select e.seq, e.at, e.type, e.stream as run_id, first.boot_id as accepted_by
    from ${events} e left join ${events} first on first.stream = e.stream and first.version = 1
    where e.seq > ${after} and e.seq <= ${to} and e.boot_id = ${boot_id} and e.type in (${TYPES})
    order by e.seq`;
}

/**
 * What a state says of its runs, for a list of them. An index has the unfinished ones, and one has
 * those that ended amiss: both are few. Null: nothing. Most runs are completed.
 */
export function kindOf(state: string | undefined): 'unfinished' | 'amiss' | null {
  if (state === undefined || state === 'completed') return null;
  return isTerminalEvent(`run.${state}`) ? 'amiss' : 'unfinished';
}
