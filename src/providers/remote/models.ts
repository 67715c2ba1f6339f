import { SvcError } from '../../errors.ts';
import { asRecord } from '../../json.ts';
import type { ModelRecord } from '../port.ts';

/** The provider that sent the list. */
export interface Listed {
  provider: string;
  /** The configured default. */
  model: string | null;
  modelsMax: number;
}

/**
 * Reads a list of models: `{data: […]}` as OpenAI sends it, `{models: […]}`, or the bare list. A
 * missing value becomes null. Throws provider_rejected.
 */
export function readModels(value: unknown, { provider, model, modelsMax }: Listed): ModelRecord[] {
  const body = asRecord(value);
  const list = [value, body.data, body.models].find(Array.isArray);
  if (list === undefined)
    throw new SvcError(
      'provider_rejected',
      'The provider answers, but not with a list of models; a base_url usually ends in /v1.',
      { retryable: false },
    );
  const records = new Map<string, ModelRecord>();
  for (const item of list) {
    const entry = asRecord(item);
    const name = entry.id ?? entry.name;
    if (typeof name === 'string' && NAME.test(name) && records.size < modelsMax)
      records.set(name, toRecord(name, entry, provider, name === model));
  }
  return [...records.values()];
}

const NAME = /^[^\p{Cc}\p{Cf}\s][^\p{Cc}\p{Cf}]{0,255}$/u;

function toRecord(
  name: string,
  entry: Record<string, unknown>,
  provider: string,
  isDefault: boolean,
): ModelRecord {
  const meta = asRecord(entry.meta);
  return {
    id: `${provider}/${name}`,
    provider,
    name,
    state: 'available',
    size_bytes: positive(meta.size),
    digest: null,
    quantization: null,
    parameters: positive(meta.n_params),
    context_length: positive(
      entry.context_length,
      entry.max_model_len,
      entry.context_window,
      entry.max_context_length,
      meta.n_ctx_train,
    ),
    capabilities: [],
    default: isDefault,
    built_in: false,
    path: null,
  };
}

/** The first positive integer. Servers use several names for the same value. */
function positive(...values: unknown[]): number | null {
  return (
    values.find((value): value is number => Number.isSafeInteger(value) && Number(value) > 0) ??
    null
  );
}
