import type { EngineInfo } from '../../../machines/engine.ts';
import { isIn, statePath } from '../../../machines/step.ts';
import { computingNames, gpuWarning } from '../../contract/loaded-models.ts';
import type { Fit, ModelRecord } from '../../contract/model-record.ts';
import type { ModelInspection, ModelMetadata } from '../../engine/index.ts';
import type { Origin } from '../../models/index.ts';
import type { LoadedModel } from '../../ports/providers.ts';
import type { Engine } from './engine.ts';
import type { LoadOutcome } from './load-guard.ts';
import type { FileVersion, ModelFile } from './model-files.ts';
import type { ModelSource } from './stores/others.ts';

export interface ModelFacts {
  file: ModelFile;
  /** Null: it is not a readable file. */
  version: FileVersion | null;
  /** Null: not read yet. */
  inspection: ModelInspection | null;
  /** Null: its load was not tried yet. */
  outcome: LoadOutcome | null;
  in_engine: 'available' | 'loading' | 'loaded';
  default: boolean;
  built_in: boolean;
  /** Why it cannot be used, as another program has it. */
  problem: string | null;
  source: 'svc' | ModelSource;
  /** Known without reading the file. */
  digest: string | null;
  /** Null: it cannot be used, or was not read. */
  fit: Fit | null;
}

/** The public record of a model. An unknown value is null. */
export function modelRecord({
  file,
  version,
  inspection,
  outcome,
  in_engine,
  default: isDefault,
  built_in,
  problem: reported,
  source,
  digest: recorded,
  fit,
}: ModelFacts): ModelRecord {
  const {
    architecture = null,
    quantization = null,
    parameters = null,
    context_length = null,
    capabilities = [],
    digest = null,
  } = inspection ?? {};
  const problem =
    version === null
      ? 'it is not a file that can be read'
      : (reported ?? inspection?.problem ?? outcome?.reason ?? null);
  // A model that is or was loaded can be loaded.
  const isKnown = inspection?.supported === true || outcome?.loaded === true;
  const known = !isKnown && in_engine === 'available' ? 'not_checked' : in_engine;
  return {
    id: file.id,
    provider: 'local',
    name: file.name,
    state: problem === null ? known : 'invalid',
    size_bytes: version?.size_bytes ?? null,
    parts: version?.parts ?? null,
    problem,
    source,
    digest: digest ?? recorded,
    architecture,
    quantization,
    parameters,
    context_length,
    capabilities,
    ...(fit === null ? {} : { fit }),
    ...(inspection?.template_problem === undefined
      ? {}
      : { template_problem: inspection.template_problem }),
    default: isDefault,
    built_in,
    path: file.path,
    modified_at: version === null ? null : new Date(version.modified_ms).toISOString(),
  };
}

/** What `svc model show` adds to the record of a model. An unknown value is null. */
export interface ModelExtras extends ModelMetadata {
  /** The kind of its chat template. */
  template: string | null;
  licence: string | null;
  /** An estimate of the memory that it needs, with the present limits. */
  memory_bytes: number | null;
  /** Where svc has it from. */
  origin: Origin | null;
}

export function modelExtras(
  { fit }: ModelRecord,
  metadata: ModelMetadata | null,
  origin: Origin | null,
  named: string | null,
): ModelExtras {
  const known = metadata?.metadata ?? {};
  const text = (key: string) => {
    const value = known[key];
    return typeof value === 'string' && value !== '' ? value : null;
  };
  const template = text('tokenizer.chat_template');
  return {
    template: named ?? (template === null ? null : kindOf(template)),
    licence: text('general.license.name') ?? text('general.license'),
    memory_bytes: fit?.needs_bytes ?? null,
    origin,
    ...(metadata ?? { metadata: {}, metadata_left_out: 0 }),
  };
}

/** The family of a chat template, by the marks that only it has. */
function kindOf(template: string): string {
  return KINDS.find(([mark]) => template.includes(mark))?.[1] ?? 'another kind';
}

const KINDS: readonly (readonly [mark: string, kind: string])[] = [
  ['<|im_start|>', 'ChatML'],
  ['<|start_header_id|>', 'Llama 3'],
  ['<start_of_turn>', 'Gemma'],
  ['<|start|>', 'Harmony'],
  ['[INST]', 'Mistral'],
  ['<｜User｜>', 'DeepSeek'],
  ['<|start_of_role|>', 'Granite'],
  ['<|assistant|>', 'Phi or Zephyr'],
];

/** The record of an unfinished download. */
export function partialRecord(file: ModelFile, size_bytes: number): ModelRecord {
  const record = modelRecord({
    file,
    inspection: null,
    outcome: null,
    problem: null,
    in_engine: 'available',
    source: 'svc',
    digest: null,
    fit: null,
    default: false,
    built_in: false,
    version: null,
  });
  return { ...record, state: 'partial', size_bytes, problem: null };
}

/** The public record of a model in memory. */
export function loadedRecord(
  engine: Engine,
  memory_bytes: number | null,
  now: number,
): LoadedModel {
  const { snapshot, model, purpose } = engine;
  const { info, since, due_at, idle_ms, error } = snapshot.context;
  const isIdle = snapshot.hasTag('free');
  const warning = info === null ? null : gpuWarning({ ...info, model: model.name });
  return {
    id: model.id,
    name: model.name,
    path: model.path,
    purpose,
    memory_bytes,
    state: STATES.find(([state]) => isIn(snapshot, state))?.[1] ?? 'failed',
    state_path: statePath(snapshot),
    since,
    progress: engine.progress,
    runs: engine.process?.orders ?? 0,
    pid: info?.pid ?? null,
    ...computedBy(info),
    attention: info?.attention ?? null,
    keep_ms: idle_ms,
    expires_at: isIdle && due_at - now < FOREVER_MS ? due_at : null,
    error: error?.message ?? null,
    ...(warning === null ? {} : { warning }),
  };
}

function computedBy(info: EngineInfo | null) {
  const all = computingNames.map((name) => [name, info?.[name] ?? null]);
  return Object.fromEntries(all) as Pick<LoadedModel, (typeof computingNames)[number]>;
}

const STATES: readonly (readonly [
  'starting' | 'loading' | 'busy' | 'idle' | 'stopping' | 'crashed',
  LoadedModel['state'],
])[] = [
  ['starting', 'loading'],
  ['loading', 'loading'],
  ['busy', 'busy'],
  ['idle', 'idle'],
  ['stopping', 'unloading'],
  ['crashed', 'failed'],
];

/** A model that is kept longer than this has no expiry. */
const FOREVER_MS = 100 * 365 * 86_400_000;
