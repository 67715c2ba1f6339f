import type { ModelRecord } from './port.ts';

/** A model that a provider lists by its name alone. */
export function namedModel(provider: string, name: string): ModelRecord {
  return {
    id: `${provider}/${name}`,
    provider,
    name,
    state: 'available',
    size_bytes: null,
    digest: null,
    quantization: null,
    parameters: null,
    context_length: null,
    capabilities: [],
    default: false,
    built_in: false,
    path: null,
  };
}
