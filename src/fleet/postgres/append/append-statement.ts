import {
  HOUR_ROWS_MAX,
  NAME_CHARS_MAX,
  OTHER_CLIENTS,
  OTHER_MODELS,
  type Shape,
} from '../../../store/usage-sums.ts';
import { notify } from '../channel.ts';
import { columnsOf, typeOf, USED_BY_EMBEDDINGS, USED_BY_RUNS } from '../usage.ts';

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
  fence: `select epoch = $2 as present, until > clock_timestamp() as valid
    from svc_nodes where node_id = $1 for share`,
  gap: `select given.stream from unnest($3::text[], $4::bigint[]) as given (stream, version)
    where coalesce((select max(version) from svc_events e where e.stream = given.stream), 0)
      <> given.version - 1
    union all
    select run_id from unnest($5::text[]) as given (run_id)
    where not exists (select 1 from svc_events where stream = given.run_id)
    limit 1`,
  other: `select run_id from svc_runs
    where run_id = any($3::text[]) and node_id is distinct from $1 limit 1`,
  log: `update svc_log set last_seq = last_seq + $6::int, bytes = bytes + $7::bigint
    where id = 1 and exists (select 1 from fence where present and valid)
      and not exists (select 1 from gap) and not exists (select 1 from other)
    returning last_seq - $6::int as base, bytes`,
  new_events: `insert into svc_events (seq, stream, version, type, schema, at, boot_id, data, digest)
    select base + given.place, given.stream, given.version, given.type, given.schema, given.at,
      given.boot_id, given.data, given.digest
    from log, unnest($8::text[], $9::bigint[], $10::text[], $11::int[], $12::float8[], $13::text[],
      $14::text[], $15::bytea[]) with ordinality
      as given (stream, version, type, schema, at, boot_id, data, digest, place)`,
  given_runs: `select * from unnest($16::text[], $17::int[], $18::text[], $19::bool[], $20::float8[],
      $21::text[], $22::text[], $23::text[], $24::text[], $25::bool[], $26::text[], $27::text[],
      $28::int[], $29::bigint[], $30::text[], $31::bytea[], $32::text[], $33::text[],
      $34::float8[]) with ordinality
    as given (run_id, accepted_place, idempotency_key, finished, ended_at, state, provider, model,
      client, cloud, conversation, origin, seq_place, seq, data, digest, prompt, answer, due_at,
      place)`,
  new_runs: `insert into svc_runs as r (run_id, accepted_seq, idempotency_key, finished, ended_at, state,
      provider, model, client, cloud, conversation, origin, seq, data, digest, bytes, node_id, waits,
      due_at)
    select given.run_id,
      coalesce(base + given.accepted_place,
        (select e.seq from svc_events e where e.stream = given.run_id and e.version = 1), given.seq),
      given.idempotency_key, given.finished,
      case when given.finished then coalesce(given.ended_at,
        (select e.at from svc_events e where e.seq = given.seq)) end,
      given.state, given.provider, given.model, given.client, given.cloud, given.conversation,
      given.origin, coalesce(base + given.seq_place, given.seq), given.data, given.digest, null, $1,
      false, given.due_at
    from log, given_runs given order by given.place
    on conflict (run_id) do update set idempotency_key = excluded.idempotency_key,
      finished = excluded.finished, ended_at = excluded.ended_at, state = excluded.state,
      provider = excluded.provider, model = excluded.model, cloud = r.cloud or excluded.cloud,
      seq = excluded.seq, data = excluded.data, digest = excluded.digest, bytes = null,
      due_at = excluded.due_at
    returning r.run_id, r.accepted_seq, r.finished`,
  new_words: `insert into svc_words (accepted_seq, run_id, prompt, answer)
    select r.accepted_seq, r.run_id, given.prompt::tsvector, given.answer::tsvector
    from new_runs r join given_runs given using (run_id) where r.finished
    on conflict (run_id) do update set prompt = excluded.prompt, answer = excluded.answer`,
  new_usage: addSums(USED_BY_RUNS, 35),
  new_embeddings: addSums(USED_BY_EMBEDDINGS, 46),
};

/** Adds to a table of sums, in the rows for which its hours have room: see `usage-sums.ts`. */
function addSums(shape: Shape, first: number): string {
  const { table, key, sums } = shape;
  const names = columnsOf(shape);
  const given = names.map((name, index) => `$${first + index}::${typeOf(name)}[]`);
  const same = ['hour', ...key].map((name) => `u.${name} = given.${name}`).join(' and ');
  const tokens = sums.filter((name) => /^(in|out)put_tokens$/.test(name)).join(' + ');
  const within = (rows: number, name: string, other: string) =>
    `case when is_known or (is_named and before + ${name}_place <= ${rows})
       then ${name} else '${other}' end`;
  const placed: Readonly<Record<string, string>> = {
    model: within(HOUR_ROWS_MAX, 'model', OTHER_MODELS),
    client: within(HOUR_ROWS_MAX / 2, 'client', OTHER_CLIENTS),
  };
  return `insert into ${table} as u (${names.join(', ')})
    select ${['hour', ...key].map((name) => placed[name] ?? name).join(', ')},
      ${sums.map((name) => `sum(${name})`).join(', ')}
    from (select given.*, exists (select from ${table} u where ${same}) as is_known,
        char_length(model) <= ${NAME_CHARS_MAX} and ${tokens} <> 0 as is_named,
        (select count(*) from ${table} u where u.hour = given.hour) as before,
        dense_rank() over (partition by hour order by provider, model) as model_place,
        dense_rank() over (partition by hour order by ${key.join(', ')}) as client_place
      from unnest(${given.join(', ')}) as given (${names.join(', ')})) as placed, log
    group by ${['hour', ...key].map((_, index) => index + 1).join(', ')}
    on conflict (${['hour', ...key].join(', ')})
      do update set ${sums.map((name) => `${name} = u.${name} + excluded.${name}`).join(', ')}`;
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

export const APPEND = `with ${Object.entries(PARTS)
  .map(([name, query]) => `${name} as (${query})`)
  .join(',\n')}
select (select base from log) as base, (select bytes from log) as bytes, (select present from fence) as present,
  (select valid from fence) as valid, (select stream from gap) as gap, (select run_id from other) as other,
  (select ${notify(`'{"last_seq":' || base + $6::int || ',"streams":' || $53::text || '}'`)}
    from log)`;
