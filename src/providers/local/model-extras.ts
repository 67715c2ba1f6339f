import { isRecord } from '../../json.ts';
import type { Origin } from '../../models/origins.ts';
import type { ModelRecord } from '../port.ts';
import type { ModelMetadata } from './inspection.ts';
import { type ContextPlan, memoryNeeds, shapeOf } from './memory-needs.ts';

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
  { size_bytes, problem }: ModelRecord,
  metadata: ModelMetadata | null,
  origin: Origin | null,
  plan: ContextPlan,
): ModelExtras {
  const known = metadata?.metadata ?? {};
  const text = (key: string) => {
    const value = known[key];
    return typeof value === 'string' && value !== '' ? value : null;
  };
  const template = text('tokenizer.chat_template');
  return {
    template: template === null ? null : kindOf(template),
    licence: text('general.license.name') ?? text('general.license'),
    memory_bytes: (problem ?? null) === null ? memoryOf(known, size_bytes ?? 0, plan) : null,
    origin,
    ...(metadata ?? { metadata: {}, metadata_left_out: 0 }),
  };
}

function memoryOf(known: Readonly<Record<string, unknown>>, weights: number, plan: ContextPlan) {
  const numbers = new Map(
    Object.entries(known).flatMap(([key, value]): [string, number][] => {
      // A long list is shown by its length.
      const number = isRecord(value) ? value.count : value;
      return typeof number === 'number' ? [[key, number]] : [];
    }),
  );
  const architecture = String(known['general.architecture'] ?? '');
  return memoryNeeds(shapeOf({ architecture, numbers }, weights), plan);
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
