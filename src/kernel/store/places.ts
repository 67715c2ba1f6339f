import type Database from 'better-sqlite3';
import { columnOf, RUN_NAMES, type RunColumnName } from './columns.ts';

/**
 * A table beside the log, which follows from it: the conversation and the origin of runs.
 *
 * 1. A run has a row if it continues another run, or has an origin. It is written with the first
 *    row of the run.
 * 2. The row goes with the run.
 */
const TABLE = `
create table run_places (
  run_id text primary key,
  accepted_seq integer not null,
  conversation text not null,
  origin text
) strict, without rowid;
create index run_origins on run_places (origin, accepted_seq) where origin is not null;
create trigger run_place_removed after delete on runs begin delete from run_places where run_id = old.run_id; end;`;

/** A column of `runs`, also one that follows from the JSON of its row. `of`: such as `r.` */
export function inRuns(name: RunColumnName, of = ''): string {
  const { sqlite = '' } = columnOf(name);
  return sqlite.startsWith('$') ? inData(sqlite, of) : `${of}${name}`;
}

function inData(path: string, of = ''): string {
  return `case when json_valid(${of}data) then ${of}data ->> '${path}' end`;
}

/** The numbers that are summed for a conversation. */
export const TOKENS = ['input_tokens', 'output_tokens', 'cached_tokens'] as const;
const tokensIn = (of = '') => TOKENS.map((name) => inData(`$.record.usage.${name}`, of));
const continues = (of = '') => `(${inData('$.conversation', of)}) is not null`;
/** A run that has ended and continues another one. */
const laterTurn = (of = '') => `${of}finished = 1 and ${continues(of)}`;

/** Runs that ended amiss, which no write of another run changes. */
const amiss = (of = '') => `${of}finished = 1 and ${of}state <> 'completed'`;

/** What `kindOf` a state means. Its index has the same text. */
export const KINDS = { unfinished: 'r.finished = 0', amiss: amiss('r.') } as const;

/** Creates these indexes, unless they are there. */
export function addDerived(db: Database.Database): void {
  db.exec(`create index if not exists runs_amiss on runs (state, accepted_seq) where ${amiss()}`);
  for (const name of RUN_NAMES)
    if (inRuns(name) !== name)
      db.exec(`create index if not exists runs_${name} on runs (${inRuns(name)}, accepted_seq)`);
  // The index has all that a sum and its condition need, so no row of a turn is read.
  db.exec(
    `create index if not exists run_tokens on runs
       (run_id, finished, ${[continues(), ...tokensIn()].join(', ')})
       where ${laterTurn()}`,
  );
}

/** The turns of a conversation, in their order. An older version had an index without the order. */
const TURNS = `
create index if not exists run_turns on run_places (conversation, accepted_seq);
drop index if exists run_conversations;`;

/** Creates the table, unless it is there. No run of an older version has a row. */
export function addPlaces(db: Database.Database): void {
  const known = db.prepare(`select 1 from sqlite_schema where name = 'run_places'`).get();
  if (known === undefined) db.transaction(() => db.exec(TABLE))();
  db.exec(TURNS);
  // A damaged table is found here, where the open reports it.
  db.prepare('select run_id, accepted_seq, conversation, origin from run_places');
}

/** The rows of the runs that have a row in `runs`. */
export const PLACES = `
insert or ignore into run_places
  select run_id, accepted_seq, coalesce(data ->> '$.conversation', run_id), data ->> '$.origin'
  from runs where json_valid(data) and coalesce(data ->> '$.conversation', data ->> '$.origin') is not null`;

/** The first run of a conversation, if it has no row. No other run of it is older. */
const FIRST_TURN =
  'r.run_id = @conversation and ' +
  'not exists (select 1 from run_places where run_id = @conversation)';

/** Runs of a conversation, by the id of its first run. */
export const IN_CONVERSATION = `(
  r.run_id in (select run_id from run_places where conversation = @conversation)
  or ${FIRST_TURN}
)`;

/** The sums of the rows of a conversation that can be read. */
export const CONVERSATION_USAGE = `
with used (${TOKENS.join(', ')}) as (
  select ${tokensIn('r.').join(', ')}
    from run_places p cross join runs r indexed by run_tokens on r.run_id = p.run_id
    where p.conversation = @conversation and ${laterTurn('r.')}
  union all select ${tokensIn('r.').join(', ')} from runs r
    where r.run_id = @conversation and r.finished = 1 and json_valid(r.data)
      and r.data ->> '$.conversation' is null
)
select count(*) as runs, ${TOKENS.map((name) => `coalesce(sum(${name}), 0) as ${name}`).join(', ')},
  count(*) filter (where input_tokens is null or output_tokens is null) as unknown
from used`;

/** The conversation of a run. */
export const CONVERSATION_OF = 'select conversation from run_places where run_id = ?';

/** Runs that no other run of their conversation follows. */
export const LATEST = `not exists (
  select 1 from run_places later where later.accepted_seq > r.accepted_seq and later.conversation =
    coalesce((select conversation from run_places where run_id = r.run_id), r.run_id)
)`;

/** The stream with the title of the conversation that a run began. */
export function titleStream(run_id: string): string {
  return `${CONVERSATION}${run_id}`;
}

/** How the streams of conversations begin. */
export const CONVERSATION = 'conversation:';

/** The newest run of an origin. */
export const LAST_OF_ORIGIN =
  'select run_id from run_places where origin = ? order by accepted_seq desc limit 1';

/** Finds a run whose conversation or origin is not that of its row. */
export const MISPLACED = `select 1 from runs r left join run_places p on p.run_id = r.run_id
  where r.run_id = ? and json_valid(r.data) and (
    coalesce(p.conversation, r.run_id) is not coalesce(r.data ->> '$.conversation', r.run_id)
    or p.origin is not r.data ->> '$.origin')`;

/**
 * An index of the runs that a named token asked, by its name. The home asked the others.
 *
 * 1. The first event of a run says it, and never changes. So an index of these events is enough,
 *    and an older version keeps it up to date.
 * 2. A damaged event names none. Then only those who see every run find this one.
 */
const askedBy = (of = '') => `case when json_valid(${of}data) then ${of}data ->> '$.asked_by' end`;
const firstOf = (of = '') => `${of}version = 1 and ${of}type = 'run.accepted'`;
const named = (of = '') => `${firstOf(of)} and ${askedBy(of)} is not null`;
const [ASKED_BY, FIRST, NAMED] = [askedBy(), firstOf(), named()];
const ASKERS = `CREATE INDEX askers on events (${ASKED_BY}, seq) where ${NAMED}`;

/** Creates the index, unless it is there. A recent version also had the runs of the home in it. */
export function addAskers(db: Database.Database): void {
  const known = db.prepare(`select sql from sqlite_schema where name = 'askers'`).pluck().get();
  if (known === ASKERS) return;
  db.exec(`drop index if exists askers; ${ASKERS}`);
}

/** Where the runs of `@asked_by` begin. */
export const FIRST_OF_ASKER = `select seq from events where ${NAMED} and ${ASKED_BY} = @asked_by`;

/** Whether the run that begins at a position is one of them. The index alone answers it. */
export const ofAsker = (position: string) => `exists (
  select 1 from events indexed by askers where ${NAMED} and ${ASKED_BY} = @asked_by
    and seq = ${position})`;

/**
 * The source of the runs of a list in their order, as `r`, so that a page reads no other run. `at`:
 * their position. `where` picks them, and `also` says the same of a run from another source.
 */
export interface RunSource {
  runs: string;
  at: string;
  where: string;
  also: string;
}

/** In the order in which a list takes one of them. */
export const RUN_SOURCES = {
  conversation: {
    runs: 'run_places p cross join runs r on r.run_id = p.run_id',
    at: 'p.accepted_seq',
    where: 'p.conversation = @conversation',
    also: IN_CONVERSATION,
  },
  asked_by: {
    runs: 'events e indexed by askers cross join runs r on r.run_id = e.stream',
    at: 'e.seq',
    where: `${named('e.')} and ${askedBy('e.')} = @asked_by`,
    also: ofAsker('r.accepted_seq'),
  },
  cloud: {
    runs: 'cloud_runs c cross join runs r on r.run_id = c.run_id',
    at: 'c.accepted_seq',
    where: 'true',
    also: 'exists (select 1 from cloud_runs where run_id = r.run_id)',
  },
} as const satisfies Record<string, RunSource>;

/** All runs. */
export const ALL_RUNS: RunSource = {
  runs: 'runs r',
  at: 'r.accepted_seq',
  where: 'true',
  also: 'true',
};
/** After the other turns of a conversation. */
export const FIRST_TURNS: RunSource = { ...ALL_RUNS, where: FIRST_TURN };

export const ASKER = `select ${ASKED_BY} from events where stream = ? and ${FIRST}`;

/** The newest run of an asker. */
export const LAST_OF_ASKER = `select stream from events
  where ${NAMED} and ${ASKED_BY} = @asked_by order by seq desc limit 1`;

/** The newest run of the home. */
export const LAST_OF_HOME = `select stream from events
  where ${FIRST} and seq not in (select seq from events where ${NAMED}) order by seq desc limit 1`;

/** The newest run of an asker at an origin. */
export const LAST_OF_BOTH = `select run_id from run_places
  where origin = @origin and (${ASKER.replace('?', 'run_id')}) is @asked_by
  order by accepted_seq desc limit 1`;
