import * as v from 'valibot';
import { type ErrorBody, type ErrorCode, errors } from '../errors.ts';
import { faultyModel } from './faulty-model.ts';
import { anything, flag, named, object, oneOf, pick, text, time, whole } from './vocabulary.ts';

/**
 * The answers in the form that users see: snake_case, RFC 3339 times. A test checks real answers
 * against these schemas.
 */

export const orNull = <S extends v.GenericSchema>(schema: S) => v.nullable(schema);

export const errorBody = named(
  'ErrorBody',
  object({
    code: v.picklist(Object.keys(errors) as ErrorCode[]),
    message: text,
    type: text,
    param: orNull(text),
    retryable: flag,
    hint: text,
    docs: text,
    details: v.exactOptional(anything),
  }) satisfies v.GenericSchema<unknown, ErrorBody>,
);
export const errorAnswer = named('Error', object({ error: errorBody }));

/** The state of a machine: its outermost name, and the path to its leaf. */
export const stateFields = { state: text, state_path: text };
export const lifecycleResult = named('Position', object(stateFields));
export type LifecycleResult = v.InferOutput<typeof lifecycleResult>;

const counts = { active: whole, queued: whole, finished: whole };
export const queue = object({ length: whole, capacity: whole });
const verdict = oneOf(['pass', 'warn', 'fail']);
const lastBoot = orNull(
  object({
    boot_id: text,
    ending: oneOf(['clean', 'failed', 'killed', 'power_lost', 'lease_lost']),
    at: time,
  }),
);

export const status = object({
  ...stateFields,
  since: time,
  /** Since when it takes runs, however many came and went. Absent: it takes none, or then. */
  ready_since: v.exactOptional(time),
  pid: whole,
  version: text,
  boot_id: text,
  home: text,
  addresses: object({ http: orNull(text), grpc: orNull(text), socket: orNull(text) }),
  runs: object(counts),
  seq: whole,
  last_boot: lastBoot,
});
export type StatusRecord = v.InferOutput<typeof status>;

export const health = named(
  'Health',
  object({
    status: verdict,
    version: text,
    service_id: text,
    ...stateFields,
    since: time,
    reason: orNull(text),
    output: v.exactOptional(text),
  }),
);
export type HealthRecord = v.InferOutput<typeof health>;

/** The slow check of the whole log. */
const verified = object({
  /** How far its present round has come. */
  seq: whole,
  /** When its last complete round ended. */
  at: orNull(time),
  /** How many damaged places it has found. */
  damaged: whole,
  /** The first of them, in sentences. The public report omits them. */
  problems: v.array(text),
});
export type VerifiedRecord = v.InferOutput<typeof verified>;

const checkResult = object({
  status: verdict,
  componentType: v.exactOptional(text),
  observedValue: v.exactOptional(v.unknown()),
  observedUnit: v.exactOptional(text),
  time,
  output: v.exactOptional(text),
});

/** The data of a provider in a log. */
export const providerFields = {
  id: text,
  kind: oneOf(['local', 'cloud']),
  adapter: text,
  state: text,
  reason: orNull(text),
  since: time,
  base_url: orNull(text),
  models: orNull(whole),
  /** The models that it answers with faults. */
  faulty_models: v.array(faultyModel),
};
export const provider = named(
  'Provider',
  object({
    ...providerFields,
    /** When an unavailable provider is tried again. */
    retry_at: orNull(time),
    /** Its latest changes of state, oldest first. `code`: of its error then. */
    transitions: v.array(object({ at: time, state: text, code: orNull(text) })),
    /** Where the key comes from, never the key: `none`, `env:NAME`, `env:NAME (not set)`. */
    credential: text,
    default: flag,
  }),
);
export type ProviderRecord = v.InferOutput<typeof provider>;

export const engine = object({
  state: text,
  since: time,
  model: orNull(text),
  pid: orNull(whole),
  threads: orNull(whole),
  context_length: orNull(whole),
  parallel: orNull(whole),
  error: orNull(text),
});
export type EngineRecord = v.InferOutput<typeof engine>;

const reportFields = {
  ...health.entries,
  ready_when: orNull(text),
  /** The last state changes of the daemon, oldest first. */
  transitions: v.array(object({ at: time, event: text, state_path: text })),
  runs: object(counts),
  /** Requests of this boot for embeddings, reranking, speech or images. */
  embeddings: object({ active: whole, answered: whole, failed: whole }),
  queue,
  log: object({
    seq: whole,
    durable_seq: whole,
    lag: whole,
    last_commit_ms: orNull(v.number()),
    size_bytes: orNull(whole),
    verified,
  }),
  memory: object({ rss_bytes: whole, heap_used_bytes: whole }),
  last_boot: lastBoot,
  checks: v.record(v.string(), v.array(checkResult)),
};
export const report = object({
  ...reportFields,
  providers: v.array(provider),
  /** The engine whose state changed last. */
  engine,
  /** All engines with a process: one for each local model in memory. */
  engines: v.array(engine),
});
export type ReportRecord = v.InferOutput<typeof report>;

/** The report without the details that need the token. */
export const publicReport = object({
  ...reportFields,
  providers: v.array(v.strictObject(pick(provider.entries, ['id', 'kind', 'state']))),
  engine: v.strictObject(pick(engine.entries, ['state'])),
  engines: v.array(v.strictObject(pick(engine.entries, ['state']))),
});
export const anyReport = named('Report', v.union([report, publicReport]));
export type PublicReport = v.InferOutput<typeof publicReport>;

export const event = named(
  'Event',
  object({
    seq: whole,
    stream: text,
    version: whole,
    type: text,
    at: time,
    boot_id: text,
    data: anything,
  }),
);
/** An event as users see it. */
export type EventRecord = v.InferOutput<typeof event>;
