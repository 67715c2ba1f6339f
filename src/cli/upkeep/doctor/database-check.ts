import type { Config } from '../../../config/config.ts';
import { storePassword } from '../../../config/store/password.ts';
import { asSvcError } from '../../../errors.ts';
import { type DatabaseFacts, inspectDatabase } from '../../../fleet/index.ts';
import { type Check, fail, ok, warn } from './check.ts';

/** The database of a shared event log: it answers, takes commits, and keeps them. */
export async function checkDatabase(config: Config): Promise<Check[]> {
  try {
    const facts = await inspectDatabase({
      address: config.store,
      password: storePassword(config),
      limits: config.limits,
    });
    return [database(facts), ...checkDoubts(facts, config.limits.lease_ms / 2)];
  } catch (error) {
    const { message, hint } = asSvcError(error);
    return [fail('database', message, hint.includes('svc doctor') ? READ : hint)];
  }
}

const READ = 'See docs/fleet.md.';
const LAG_MS_MAX = 10_000;
const NAMES_MAX = 5;

function database(facts: DatabaseFacts): Check {
  const { name, server, tables, known, missing, is_standby, encrypted } = facts;
  if (is_standby)
    return fail(
      'database',
      `${name} is a standby: it takes no commits.`,
      'Name the primary in store, or promote this one.',
    );
  if (missing.length > 0)
    return fail(
      'database',
      `The user of store lacks rights in ${name}: ${shortList(missing)}.`,
      'Let this user own the tables, or grant it these rights.',
    );
  if (tables !== null && tables > known)
    return fail(
      'database',
      `A newer svc made the tables in ${name}: version ${tables}, and this one knows ${known}.`,
      'Install that version of svc on this machine too.',
    );
  const made = tables === null ? 'no tables yet' : `tables of version ${tables}`;
  const how = encrypted ? 'encrypted' : 'not encrypted';
  return ok('database', `${name}, PostgreSQL ${server}, ${made}, ${how}`);
}

/** Warnings about a database that works. */
function checkDoubts(
  { synchronous_commit, clock_ms, lag_ms }: DatabaseFacts,
  clock_ms_max: number,
): Check[] {
  const found: Check[] = [];
  if (synchronous_commit === 'off')
    found.push(
      fail(
        'database',
        'synchronous_commit is off: a crash of the database loses runs that were accepted.',
        'Set it on: alter database … set synchronous_commit = on',
      ),
    );
  if (Math.abs(clock_ms) > clock_ms_max)
    found.push(
      warn(
        'database',
        `Its clock and that of this machine differ by ${seconds(Math.abs(clock_ms))}, ` +
          'so this node takes no runs.',
        'Let both follow a time server.',
      ),
    );
  if (lag_ms !== null && lag_ms > LAG_MS_MAX)
    found.push(
      warn(
        'database',
        `A replica is ${seconds(lag_ms)} behind: a failover now loses that time.`,
        'Look at the replica, or make it synchronous: synchronous_standby_names.',
      ),
    );
  return found;
}

function shortList(names: readonly string[]): string {
  const more = names.length - NAMES_MAX;
  const shown = names.slice(0, NAMES_MAX).join(', ');
  return more > 0 ? `${shown}, and ${more} more` : shown;
}

function seconds(ms: number): string {
  return `${Math.round(ms / 1000)} s`;
}
