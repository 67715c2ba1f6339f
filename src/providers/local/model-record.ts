import type { ModelRecord } from '../port.ts';
import type { ModelInspection } from './inspection.ts';
import type { FileVersion } from './inspector.ts';
import type { ModelFile } from './model-engine.ts';

export interface ModelFacts {
  file: ModelFile;
  /** Null: it is not a readable file. */
  version: FileVersion | null;
  /** Null: not read yet. */
  inspection: ModelInspection | null;
  in_engine: 'available' | 'loading' | 'loaded';
  default: boolean;
  built_in: boolean;
}

/** The public record of a model. An unknown value is null. */
export function modelRecord({
  file,
  version,
  inspection,
  in_engine,
  default: isDefault,
  built_in,
}: ModelFacts): ModelRecord {
  const {
    quantization = null,
    parameters = null,
    context_length = null,
    capabilities = [],
    digest = null,
  } = inspection ?? {};
  return {
    id: file.id,
    provider: 'local',
    name: file.name,
    state: version === null || (inspection?.problem ?? null) !== null ? 'invalid' : in_engine,
    size_bytes: version?.size_bytes ?? null,
    ...{ digest, quantization, parameters, context_length, capabilities },
    default: isDefault,
    built_in,
    path: file.path,
  };
}
