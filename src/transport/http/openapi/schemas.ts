import { RECOVERIES } from '../../../config/config.ts';
import { errors } from '../../../errors.ts';

/** What requests and answers are made of, in JSON Schema. A test holds real answers to it, field by field. */

export type Schema = Readonly<Record<string, unknown>>;

export const text: Schema = { type: 'string' };
export const whole: Schema = { type: 'integer' };
const flag: Schema = { type: 'boolean' };
const time: Schema = { type: 'string', format: 'date-time' };
const anything: Schema = { type: 'object', additionalProperties: true };
export const oneOf = (...words: readonly string[]): Schema => ({ type: 'string', enum: words });
const listOf = (items: Schema): Schema => ({ type: 'array', items });
const orNull = (schema: Schema): Schema => ({ anyOf: [schema, { type: 'null' }] });
export const ref = (name: keyof typeof schemas): Schema => ({
  $ref: `#/components/schemas/${name}`,
});
/** Refers to one that comes later in the table. */
const later = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` });

/** An object with these fields and no others; one whose name ends in `?` may be left out. */
export function object(fields: Record<string, Schema>): Schema {
  const entries = Object.entries(fields);
  return {
    type: 'object',
    properties: Object.fromEntries(
      entries.map(([name, schema]) => [name.replace('?', ''), schema]),
    ),
    required: entries.map(([name]) => name).filter((name) => !name.endsWith('?')),
    additionalProperties: false,
  };
}

/** Of these fields only the named ones are public. */
const partly = (fields: Record<string, Schema>, open: readonly string[]) =>
  Object.fromEntries(
    Object.entries(fields).map(([name, schema]) => [
      open.includes(name) ? name : `${name}?`,
      schema,
    ]),
  );

const counts = { active: whole, queued: whole, finished: whole };
const addresses = object({ http: orNull(text), grpc: orNull(text), socket: orNull(text) });
const lastBoot = orNull(
  object({ boot_id: text, ending: oneOf('clean', 'failed', 'killed', 'power_lost'), at: time }),
);
const position = { state: text, state_path: text };
const event = {
  seq: whole,
  stream: text,
  version: whole,
  type: text,
  at: time,
  boot_id: text,
  data: anything,
};
const health = {
  ...{
    status: oneOf('pass', 'warn', 'fail'),
    version: text,
    service_id: text,
    ...position,
    since: time,
    reason: orNull(text),
  },
  'output?': text,
};
const run = {
  ...{
    id: text,
    state: text,
    provider: text,
    model: text,
    cloud: flag,
    prompt: text,
    system: orNull(text),
    output: text,
  },
  ...{
    finish_reason: orNull(text),
    usage: object({ input_tokens: orNull(whole), output_tokens: orNull(whole) }),
  },
  ...{
    queue_position: orNull(whole),
    attempts: whole,
    created_at: time,
    started_at: orNull(time),
    first_output_at: orNull(time),
    ended_at: orNull(time),
  },
  ...{
    error: orNull(later('ErrorBody')),
    idempotency_key: orNull(text),
    client: text,
    recovery: oneOf(...RECOVERIES),
    seq: whole,
  },
};
const engine = {
  ...{
    state: text,
    since: time,
    model: orNull(text),
    pid: orNull(whole),
    threads: orNull(whole),
    context_length: orNull(whole),
  },
  ...{ parallel: orNull(whole), error: orNull(text) },
};
const provider = {
  ...{
    id: text,
    kind: oneOf('local', 'cloud'),
    adapter: text,
    state: text,
    reason: orNull(text),
    since: time,
    base_url: orNull(text),
  },
  models: orNull(whole),
};
const configured = { credential: text, default: flag };
const error = {
  ...{
    code: oneOf(...Object.keys(errors)),
    message: text,
    type: text,
    param: orNull(text),
    retryable: flag,
    hint: text,
    docs: text,
  },
  'details?': anything,
};
const { finished: _, ...working } = counts;

export const schemas = {
  ErrorBody: object(error),
  Error: object({ error: later('ErrorBody') }),
  Health: object(health),
  Report: object({
    ...health,
    ready_when: orNull(text),
    transitions: listOf(object({ at: time, event: text, state_path: text })),
    runs: object(counts),
    queue: object({ length: whole, capacity: whole }),
    providers: listOf(object(partly({ ...provider, ...configured }, ['id', 'kind', 'state']))),
    engine: object(partly(engine, ['state'])),
    log: object({
      ...{
        seq: whole,
        durable_seq: whole,
        lag: whole,
        last_commit_ms: orNull({ type: 'number' }),
        size_bytes: orNull(whole),
      },
      verified: object({ seq: whole, at: orNull(time), damaged: whole, problems: listOf(text) }),
    }),
    memory: object({ rss_bytes: whole, heap_used_bytes: whole }),
    last_boot: lastBoot,
    checks: anything,
  }),
  Position: object(position),
  Run: object(run),
  RunPage: object({
    runs: listOf(later('Run')),
    next: orNull(text),
    'damaged?': listOf(object({ id: text, message: text })),
  }),
  Event: object(event),
  Why: object({
    run_id: text,
    events: listOf(object({ ...event, state_path: text, 'left_out?': whole })),
    explanation: listOf(text),
    complete: flag,
  }),
  Provider: object({ ...provider, ...configured }),
  Providers: object({ providers: listOf(later('Provider')) }),
  Models: object({ object: text, data: listOf(anything) }),
  Instance: object({
    stream: text,
    machine: text,
    ...position,
    since: time,
    version: whole,
    seq: whole,
  }),
  Machines: object({
    machines: listOf(
      object({
        ...{ name: text, initial: text, mermaid: text, instances: listOf(later('Instance')) },
        states: listOf(
          object({ path: text, type: oneOf('atomic', 'compound', 'final'), tags: listOf(text) }),
        ),
        transitions: listOf(
          object({
            source: text,
            event: text,
            target: text,
            guard: orNull(text),
            actions: listOf(text),
          }),
        ),
      }),
    ),
    seq: whole,
  }),
  Picture: object({
    ...{ seq: whole, at: time, boot_id: text, last_seq: whole, first_seq: whole },
    status: object({
      ...{
        ...position,
        since: time,
        pid: whole,
        version: text,
        boot_id: text,
        addresses,
        seq: whole,
        last_boot: lastBoot,
      },
      runs: object({ ...working, finished: orNull(whole) }),
    }),
    instances: listOf(later('Instance')),
    runs: listOf(object({ ...run, 'shortened?': flag })),
    queue: object({ length: whole, capacity: whole }),
    providers: listOf(
      object({ ...provider, state_path: text, 'credential?': text, 'default?': flag }),
    ),
    engine: object({ ...engine, state_path: text }),
  }),
  RunInput: object({
    ...{
      prompt: text,
      'system?': text,
      'provider?': text,
      'model?': text,
      'cloud?': flag,
      'max_tokens?': whole,
      'temperature?': { type: 'number' },
    },
    ...{
      'seed?': whole,
      'timeout_ms?': whole,
      'idempotency_key?': text,
      'recovery?': oneOf(...RECOVERIES),
      'client?': text,
    },
    'cancel_on_disconnect?': flag,
  }),
  LifecycleInput: object({ type: text, 'mode?': oneOf('drain', 'force'), 'timeout_ms?': whole }),
  SessionInput: object({ 'ticket?': text, 'token?': text }),
  Session: object({ id: text, key: text, expires_at: text }),
  Proof: object({ proof: text }),
} as const;
