import type { QueryConfig } from 'pg';
import {
  columnOf,
  EVENT_COLUMNS,
  EVENT_NAMES,
  RUN_COLUMNS,
  RUN_NAMES,
  type RunColumnName,
} from '../../../kernel/store/columns.ts';
import type { EmbeddingUsage } from '../../../kernel/store/embedding-usage.ts';
import type { EventRow, RunLine } from '../../../kernel/store/row.ts';
import { dataDigest } from '../../../kernel/store/run-digest.ts';
import {
  HOUR_ROWS_MAX,
  NAME_CHARS_MAX,
  OTHER_CLIENTS,
  OTHER_MODELS,
  type Shape,
} from '../../../kernel/store/usage-sums.ts';
import { notify } from '../channel.ts';
import { eventDigest } from '../columns.ts';
import { addTexts, type NewText, type Use } from '../texts.ts';
import { columnsOf, listColumns, USED_BY_EMBEDDINGS, USED_BY_RUNS } from '../usage.ts';
import { type ListColumns, Statement } from './statement.ts';

/** The inputs of a commit statement, besides the lease of its node. */
export interface AppendValues {
  /** The version with which each stream of the commit begins. */
  first: ReadonlyMap<string, number>;
  /** Runs that began before this commit: the log must have events of them. */
  earlier_runs: readonly string[];
  events: readonly EventRow[];
  bytes: number;
  runs: readonly AppendedRun[];
  usage: readonly object[];
  embeddings: readonly EmbeddingUsage[];
  texts: readonly NewText[];
  uses: readonly Use[];
  /** The streams, as JSON of a notice. */
  streams: string;
}

/** A row, with facts from the events of its commit. */
export interface AppendedRun {
  line: RunLine;
  /** Places in the commit, from 1: of its first event, and of the event that the row is of. */
  accepted_place: number | null;
  seq_place: number | null;
  ended_at: number | null;
  prompt: string | null;
  answer: string | null;
}

const EVENTS: ListColumns<EventRow> = {
  ...Object.fromEntries(
    EVENT_NAMES.filter((name) => name !== 'seq').map((name) => [
      name,
      { type: EVENT_COLUMNS[name].type, toValue: (event: EventRow) => event[name] },
    ]),
  ),
  digest: { type: 'bytea', toValue: eventDigest },
};

export const APPENDED_RUNS: ListColumns<AppendedRun> = {
  ...Object.fromEntries(
    RUN_NAMES.filter((name) => 'of' in RUN_COLUMNS[name]).map((name) => [
      name,
      {
        type: columnOf(name).type,
        toValue: ({ line }: AppendedRun) => line[name as keyof RunLine],
      },
    ]),
  ),
  data: { type: 'json', toValue: ({ line }) => line.data },
  digest: { type: 'bytea', toValue: ({ line }) => dataDigest(line.run_id, line.data) },
  accepted_place: { type: 'whole', toValue: (run) => run.accepted_place },
  seq_place: { type: 'whole', toValue: (run) => run.seq_place },
  ended_at: { type: 'number', toValue: (run) => run.ended_at },
  prompt: { type: 'json', toValue: (run) => run.prompt },
  answer: { type: 'json', toValue: (run) => run.answer },
};

const NEW_TEXTS: ListColumns<NewText> = {
  digest: { type: 'name', toValue: ({ digest }) => digest },
  text: { type: 'json', toValue: ({ text }) => text },
};
const USES: ListColumns<Use> = {
  parent: { type: 'name', toValue: ({ parent }) => parent },
  digest: { type: 'name', toValue: ({ digest }) => digest },
};

/** The node of the commit, and its epoch. */
const [NODE, EPOCH] = ['$1::text', '$2::bigint'];

/** Columns of a run that only this store has. */
const OWN_COLUMNS = ['data', 'digest', 'bytes', 'node_id', 'waits'];

/**
 * Inserts rows of runs, or replaces them. `value`: SQL for columns that the given row does not
 * have. `more`: further columns to replace.
 */
export function upsertRuns(
  value: Readonly<Record<string, string>>,
  from: string,
  more: readonly string[] = [],
): string {
  const names = [...RUN_NAMES, ...OWN_COLUMNS];
  const replaced = RUN_NAMES.filter((name) => columnOf(name).later === undefined);
  const added = RUN_NAMES.filter((name: RunColumnName) => columnOf(name).later === 'adds');
  const changes = [
    ...[...replaced, ...more, 'data', 'digest'].map((name) => `${name} = excluded.${name}`),
    ...added.map((name) => `${name} = r.${name} or excluded.${name}`),
    'bytes = null',
  ];
  return `insert into svc_runs as r (${names.join(', ')})
    select ${names.map((name) => value[name] ?? `given.${name}`).join(', ')} from ${from}
    on conflict (run_id) do update set ${changes.join(', ')}`;
}

const statement = new Statement<AppendValues>(2);
const count = statement.place('int', ({ events }) => events.length);
const streamsFirst = [
  statement.place('text[]', ({ first }) => [...first.keys()]),
  statement.place('bigint[]', ({ first }) => [...first.values()]),
];
const streams = streamsFirst[0];

/**
 * One commit as one statement, so that it is one transaction with one round trip. A node that is
 * cut off leaves no open transaction, which would keep the lock of the log.
 *
 * 1. `fence` locks the row of the node. A take-over waits for the end of the statement.
 * 2. Only with a valid lease, whole streams and own runs, `log` locks the log and assigns
 *    positions. Each other part follows from `log`, so nothing else is written without it.
 * 3. `for share` and `update` see the newest version of their row, whatever committed before them.
 */
const PARTS = {
  fence: `select epoch = ${EPOCH} as present, until > clock_timestamp() as valid
    from svc_nodes where node_id = ${NODE} for share`,
  gap: `select given.stream from unnest(${streamsFirst.join(', ')}) as given (stream, version)
    where coalesce((select max(version) from svc_events e where e.stream = given.stream), 0)
      <> given.version - 1
    union all
    select run_id from unnest(${statement.place('text[]', (of) => of.earlier_runs)}) as given (run_id)
    where not exists (select 1 from svc_events where stream = given.run_id)
    limit 1`,
  other: `select run_id from svc_runs
    where run_id = any(${streams}) and node_id is distinct from ${NODE} limit 1`,
  log: `update svc_log set last_seq = last_seq + ${count},
      bytes = bytes + ${statement.place('bigint', (of) => of.bytes)}
    where id = 1 and exists (select 1 from fence where present and valid)
      and not exists (select 1 from gap) and not exists (select 1 from other)
    returning last_seq - ${count} as base, bytes`,
  new_events: `insert into svc_events (seq, ${Object.keys(EVENTS).join(', ')})
    select base + given.place, ${Object.keys(EVENTS)
      .map((name) => `given.${name}`)
      .join(', ')}
    from log, ${statement.rows(EVENTS, (of) => of.events)}`,
  given_runs: `select * from ${statement.rows(APPENDED_RUNS, (of) => of.runs)}`,
  new_runs: `${upsertRuns(
    {
      accepted_seq: `coalesce(base + given.accepted_place,
        (select e.seq from svc_events e where e.stream = given.run_id and e.version = 1), given.seq)`,
      ended_at: `case when given.finished then coalesce(given.ended_at,
        (select e.at from svc_events e where e.seq = given.seq)) end`,
      seq: 'coalesce(base + given.seq_place, given.seq)',
      bytes: 'null',
      node_id: NODE,
      waits: 'false',
    },
    'log, given_runs given order by given.place',
  )}
    returning r.run_id, r.accepted_seq, r.finished`,
  new_words: `insert into svc_words (accepted_seq, run_id, prompt, answer)
    select r.accepted_seq, r.run_id, given.prompt::tsvector, given.answer::tsvector
    from new_runs r join given_runs given using (run_id) where r.finished
    on conflict (run_id) do update set prompt = excluded.prompt, answer = excluded.answer`,
  new_usage: addSums(USED_BY_RUNS, (of) => of.usage),
  new_embeddings: addSums(USED_BY_EMBEDDINGS, (of) => of.embeddings),
  ...addTexts(
    statement.rows(NEW_TEXTS, (of) => of.texts),
    statement.rows(USES, (of) => of.uses),
  ),
};

/** Adds to a table of sums, in the rows for which its hours have room: see `usage-sums.ts`. */
function addSums(shape: Shape, rows: (of: AppendValues) => readonly object[]): string {
  const { table, key, sums } = shape;
  const same = ['hour', ...key].map((name) => `u.${name} = given.${name}`).join(' and ');
  const tokens = sums.filter((name) => /^(in|out)put_tokens$/.test(name)).join(' + ');
  const nameWithin = (most: number, name: string, other: string) =>
    `case when is_known or (is_named and before + ${name}_place <= ${most})
       then ${name} else '${other}' end`;
  const placed: Readonly<Record<string, string>> = {
    model: nameWithin(HOUR_ROWS_MAX, 'model', OTHER_MODELS),
    client: nameWithin(HOUR_ROWS_MAX / 2, 'client', OTHER_CLIENTS),
  };
  return `insert into ${table} as u (${columnsOf(shape).join(', ')})
    select ${['hour', ...key].map((name) => placed[name] ?? name).join(', ')},
      ${sums.map((name) => `sum(${name})`).join(', ')}
    from (select given.*, exists (select from ${table} u where ${same}) as is_known,
        char_length(model) <= ${NAME_CHARS_MAX} and ${tokens} <> 0 as is_named,
        (select count(*) from ${table} u where u.hour = given.hour) as before,
        dense_rank() over (partition by hour order by provider, model) as model_place,
        dense_rank() over (partition by hour order by ${key.join(', ')}) as client_place
      from ${statement.rows(listColumns(shape), rows)}) as placed, log
    group by ${['hour', ...key].map((_, index) => index + 1).join(', ')}
    on conflict (${['hour', ...key].join(', ')})
      do update set ${sums.map((name) => `${name} = u.${name} + excluded.${name}`).join(', ')}`;
}

/** Texts to add beside a commit, with the run whose row is replaced. */
export interface AddedTexts extends Pick<AppendValues, 'texts' | 'uses'> {
  run_id: string;
}

const adding = new Statement<AddedTexts>();
const ADD_TEXTS = `with log as (select 1),
given_runs as (select ${adding.place('text', ({ run_id }) => run_id)} as run_id),
${partsOf(
  addTexts(
    adding.rows(NEW_TEXTS, ({ texts }) => texts),
    adding.rows(USES, ({ uses }) => uses),
  ),
)}
select 1`;

export function addTextsQuery(added: AddedTexts): QueryConfig {
  return { text: ADD_TEXTS, values: adding.valuesOf(added) };
}

function partsOf(parts: Readonly<Record<string, string>>): string {
  return Object.entries(parts)
    .map(([name, query]) => `${name} as (${query})`)
    .join(',\n');
}

/** `base`: the position before the first event; null if nothing was written. */
export interface AppendAnswer {
  base: number | null;
  bytes: number | null;
  /** Null: the node is unknown. */
  present: boolean | null;
  valid: boolean | null;
  gap: string | null;
  other: string | null;
}

const notice = statement.place('text', (of) => of.streams);
export const APPEND = {
  text: `with ${partsOf(PARTS)}
select (select base from log) as base, (select bytes from log) as bytes, (select present from fence) as present,
  (select valid from fence) as valid, (select stream from gap) as gap, (select run_id from other) as other,
  (select ${notify(`'{"last_seq":' || base + ${count} || ',"streams":' || ${notice} || '}'`)}
    from log)`,
  valuesOf: (values: AppendValues) => statement.valuesOf(values),
};
