/** Whether a model fits the memory that is there. */
export interface Fit {
  /** `tight`: not beside what other programs use now, or with fewer runs at a time. */
  verdict: 'fits' | 'tight' | 'does not fit';
  /** What it needs: an estimate, as a load reserves it. */
  needs_bytes: number;
  /** What models may use together. */
  budget_bytes: number;
  free_bytes: number;
  /** Only its size is known, not its header. */
  estimated: boolean;
  /** Layers that fit on the GPU. Null: no GPU is known. */
  gpu: { layers: number; of: number } | null;
  /** All of it, as sentences. */
  text: string;
}

/** A model, as users see it. */
export interface ModelRecord {
  /** `provider/name`, the form of `--model`. */
  id: string;
  provider: string;
  name: string;
  /** `partial`: a download that was removed. `not_checked`: its header was not read yet. */
  state: 'available' | 'loaded' | 'loading' | 'invalid' | 'partial' | 'not_checked';
  /** Why it is invalid. */
  problem?: string | null;
  /** The program whose file it is, such as `svc` or `ollama`. */
  source?: string;
  size_bytes: number | null;
  /** The files of a split model: above 1. Null or absent: unknown. */
  parts?: number | null;
  digest: string | null;
  architecture?: string | null;
  quantization: string | null;
  parameters: number | null;
  context_length: number | null;
  capabilities: string[];
  /** Whether it fits the memory. Absent: it is not known. */
  fit?: Fit;
  /** Why the chat template of its file is not used, and what is used instead. */
  template_problem?: string;
  default: boolean;
  built_in: boolean;
  path: string | null;
  /** When its file was changed. Null or absent: unknown. */
  modified_at?: string | null;
}

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
