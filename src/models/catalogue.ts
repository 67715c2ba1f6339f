/**
 * The models that have a short name, such as `qwen3:0.6b`.
 *
 * 1. A name with a tag means one reference. A name without one means its first tag.
 * 2. The references are checked by their form in a test. The hub checks them at the pull.
 * 3. Sizes are approximate. The hub gives the size of the file at the pull.
 */

interface Family {
  name: string;
  /** By tag, the usual one first: the reference, and the approximate size in MB. */
  tags: Readonly<Record<string, readonly [reference: string, megabytes: number]>>;
  /** SPDX where there is one, else the name of the terms. */
  licence: string;
  good_for: string;
  /** How it calls tools: a row of `src/answer-forms/calls.ts` begins so. Absent: in no form. */
  form?: string;
}

/** A short name with its tag. */
export interface KnownModel {
  /** Such as `qwen3:0.6b`. */
  name: string;
  reference: string;
  /** Approximate. */
  size_bytes: number;
  licence: string;
  good_for: string;
  /** Whether it calls tools in a form that the engine reads. */
  tools: boolean;
}

const Q4 = 'Q4_K_M';

const families: readonly Family[] = [
  {
    name: 'qwen3',
    tags: {
      '4b': [`hf:Qwen/Qwen3-4B-GGUF:${Q4}`, 2500],
      '0.6b': ['hf:Qwen/Qwen3-0.6B-GGUF:Q8_0', 640],
      '1.7b': ['hf:Qwen/Qwen3-1.7B-GGUF:Q8_0', 1830],
      '8b': [`hf:Qwen/Qwen3-8B-GGUF:${Q4}`, 5030],
      '14b': [`hf:Qwen/Qwen3-14B-GGUF:${Q4}`, 9000],
      '30b': [`hf:Qwen/Qwen3-30B-A3B-GGUF:${Q4}`, 18_560],
    },
    licence: 'apache-2.0',
    good_for: 'chat, reasoning and tools in many languages',
    form: 'Hermes',
  },
  {
    name: 'qwen3.5',
    tags: {
      '4b': [`hf:unsloth/Qwen3.5-4B-GGUF:${Q4}`, 2740],
      '0.8b': [`hf:bartowski/Qwen_Qwen3.5-0.8B-GGUF:${Q4}`, 560],
      '2b': [`hf:bartowski/Qwen_Qwen3.5-2B-GGUF:${Q4}`, 1340],
      '9b': [`hf:unsloth/Qwen3.5-9B-GGUF:${Q4}`, 5700],
      '27b': [`hf:unsloth/Qwen3.5-27B-GGUF:${Q4}`, 16_700],
      '35b': [`hf:bartowski/Qwen_Qwen3.5-35B-A3B-GGUF:${Q4}`, 21_400],
    },
    licence: 'apache-2.0',
    good_for: 'chat, reasoning and tools in many languages',
    form: 'Qwen3-Coder',
  },
  {
    name: 'qwen3-coder',
    tags: { '30b': [`hf:unsloth/Qwen3-Coder-30B-A3B-Instruct-GGUF:${Q4}`, 18_560] },
    licence: 'apache-2.0',
    good_for: 'code and tools on large machines',
    form: 'Qwen3-Coder',
  },
  {
    name: 'qwen2.5',
    tags: {
      '1.5b': [`hf:Qwen/Qwen2.5-1.5B-Instruct-GGUF:${Q4}`, 1120],
      '0.5b': [`hf:Qwen/Qwen2.5-0.5B-Instruct-GGUF:${Q4}`, 490],
      '7b': [`hf:bartowski/Qwen2.5-7B-Instruct-GGUF:${Q4}`, 4680],
      '14b': [`hf:bartowski/Qwen2.5-14B-Instruct-GGUF:${Q4}`, 8990],
    },
    licence: 'apache-2.0',
    good_for: 'chat and tools in many languages',
    form: 'Hermes',
  },
  {
    name: 'qwen2.5-coder',
    tags: {
      '1.5b': [`hf:bartowski/Qwen2.5-Coder-1.5B-Instruct-GGUF:${Q4}`, 990],
      '0.5b': [`hf:bartowski/Qwen2.5-Coder-0.5B-Instruct-GGUF:${Q4}`, 400],
      '7b': [`hf:bartowski/Qwen2.5-Coder-7B-Instruct-GGUF:${Q4}`, 4680],
      '14b': [`hf:bartowski/Qwen2.5-Coder-14B-Instruct-GGUF:${Q4}`, 8990],
    },
    licence: 'apache-2.0',
    good_for: 'code',
    form: 'Hermes',
  },
  {
    name: 'llama3.2',
    tags: {
      '3b': [`hf:bartowski/Llama-3.2-3B-Instruct-GGUF:${Q4}`, 2020],
      '1b': [`hf:bartowski/Llama-3.2-1B-Instruct-GGUF:${Q4}`, 810],
    },
    licence: 'llama3.2',
    good_for: 'chat and summaries on small machines',
    form: 'Llama 3.1',
  },
  {
    name: 'llama3.1',
    tags: { '8b': [`hf:bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:${Q4}`, 4920] },
    licence: 'llama3.1',
    good_for: 'chat and tools',
    form: 'Llama 3.1',
  },
  {
    name: 'llama3.3',
    tags: { '70b': [`hf:bartowski/Llama-3.3-70B-Instruct-GGUF:${Q4}`, 42_520] },
    licence: 'llama3.3',
    good_for: 'chat and tools on large machines',
    form: 'Llama 3.1',
  },
  {
    name: 'gemma4',
    tags: {
      e4b: [`hf:ggml-org/gemma-4-E4B-it-GGUF:${Q4}`, 4980],
      e2b: [`hf:unsloth/gemma-4-E2B-it-GGUF:${Q4}`, 3110],
      '26b': [`hf:ggml-org/gemma-4-26B-A4B-it-GGUF:${Q4}`, 16_900],
      '31b': [`hf:unsloth/gemma-4-31B-it-GGUF:${Q4}`, 18_300],
    },
    licence: 'apache-2.0',
    good_for: 'chat, reasoning and tools in many languages',
    form: 'Gemma 4',
  },
  {
    name: 'gemma3',
    tags: {
      '4b': [`hf:ggml-org/gemma-3-4b-it-GGUF:${Q4}`, 2490],
      '1b': [`hf:ggml-org/gemma-3-1b-it-GGUF:${Q4}`, 810],
      '12b': [`hf:ggml-org/gemma-3-12b-it-GGUF:${Q4}`, 7300],
      '27b': [`hf:ggml-org/gemma-3-27b-it-GGUF:${Q4}`, 16_550],
    },
    licence: 'gemma',
    good_for: 'chat in many languages',
  },
  {
    name: 'gemma2',
    tags: {
      '2b': [`hf:bartowski/gemma-2-2b-it-GGUF:${Q4}`, 1710],
      '9b': [`hf:bartowski/gemma-2-9b-it-GGUF:${Q4}`, 5760],
    },
    licence: 'gemma',
    good_for: 'chat',
  },
  {
    name: 'smollm2',
    tags: {
      '1.7b': [`hf:bartowski/SmolLM2-1.7B-Instruct-GGUF:${Q4}`, 1060],
      '135m': [`hf:bartowski/SmolLM2-135M-Instruct-GGUF:${Q4}`, 105],
      '360m': [`hf:bartowski/SmolLM2-360M-Instruct-GGUF:${Q4}`, 270],
    },
    licence: 'apache-2.0',
    good_for: 'short answers on very small machines',
  },
  {
    name: 'smollm3',
    tags: { '3b': [`hf:ggml-org/SmolLM3-3B-GGUF:${Q4}`, 1920] },
    licence: 'apache-2.0',
    good_for: 'chat and reasoning on small machines',
  },
  {
    name: 'phi4-mini',
    tags: { '3.8b': [`hf:bartowski/microsoft_Phi-4-mini-instruct-GGUF:${Q4}`, 2490] },
    licence: 'mit',
    good_for: 'reasoning and tools on small machines',
    form: 'Granite 3, Phi 4 mini',
  },
  {
    name: 'phi4',
    tags: { '14b': [`hf:bartowski/phi-4-GGUF:${Q4}`, 9050] },
    licence: 'mit',
    good_for: 'reasoning',
  },
  {
    name: 'mistral',
    tags: { '7b': [`hf:bartowski/Mistral-7B-Instruct-v0.3-GGUF:${Q4}`, 4370] },
    licence: 'apache-2.0',
    good_for: 'chat',
  },
  {
    name: 'mistral-nemo',
    tags: { '12b': [`hf:bartowski/Mistral-Nemo-Instruct-2407-GGUF:${Q4}`, 7480] },
    licence: 'apache-2.0',
    good_for: 'chat with long texts',
  },
  {
    name: 'mistral-small',
    tags: { '24b': [`hf:bartowski/Mistral-Small-24B-Instruct-2501-GGUF:${Q4}`, 14_330] },
    licence: 'apache-2.0',
    good_for: 'chat and tools on large machines',
    form: 'Mistral Nemo',
  },
  {
    name: 'mistral-small3.2',
    tags: {
      '24b': [`hf:bartowski/mistralai_Mistral-Small-3.2-24B-Instruct-2506-GGUF:${Q4}`, 14_330],
    },
    licence: 'apache-2.0',
    good_for: 'chat and tools on large machines',
    form: 'Mistral Small 3.2',
  },
  {
    name: 'devstral',
    tags: { '24b': [`hf:bartowski/mistralai_Devstral-Small-2507-GGUF:${Q4}`, 14_330] },
    licence: 'apache-2.0',
    good_for: 'code and tools on large machines',
    form: 'Devstral',
  },
  {
    name: 'magistral',
    tags: { '24b': [`hf:bartowski/mistralai_Magistral-Small-2509-GGUF:${Q4}`, 14_330] },
    licence: 'apache-2.0',
    good_for: 'reasoning and tools on large machines',
    form: 'Devstral',
  },
  {
    name: 'ministral-3',
    tags: {
      '8b': [`hf:unsloth/Ministral-3-8B-Instruct-2512-GGUF:${Q4}`, 5200],
      '3b': [`hf:unsloth/Ministral-3-3B-Instruct-2512-GGUF:${Q4}`, 2150],
      '14b': [`hf:unsloth/Ministral-3-14B-Instruct-2512-GGUF:${Q4}`, 8240],
    },
    licence: 'apache-2.0',
    good_for: 'chat and tools in many languages',
    form: 'Devstral',
  },
  {
    name: 'glm-4.7-flash',
    tags: { '30b': [`hf:unsloth/GLM-4.7-Flash-GGUF:${Q4}`, 18_300] },
    licence: 'mit',
    good_for: 'code, reasoning and tools on large machines',
    form: 'GLM 4.7',
  },
  {
    name: 'deepseek-r1',
    tags: {
      '7b': [`hf:bartowski/DeepSeek-R1-Distill-Qwen-7B-GGUF:${Q4}`, 4680],
      '1.5b': [`hf:bartowski/DeepSeek-R1-Distill-Qwen-1.5B-GGUF:${Q4}`, 1120],
      '14b': [`hf:bartowski/DeepSeek-R1-Distill-Qwen-14B-GGUF:${Q4}`, 8990],
    },
    licence: 'mit',
    good_for: 'reasoning',
  },
  {
    name: 'gpt-oss',
    tags: { '20b': ['hf:ggml-org/gpt-oss-20b-GGUF/gpt-oss-20b-mxfp4.gguf', 12_110] },
    licence: 'apache-2.0',
    good_for: 'reasoning and tools on large machines',
    form: 'gpt-oss',
  },
  {
    name: 'granite3.3',
    tags: {
      '2b': [`hf:ibm-granite/granite-3.3-2b-instruct-GGUF:${Q4}`, 1550],
      '8b': [`hf:ibm-granite/granite-3.3-8b-instruct-GGUF:${Q4}`, 4940],
    },
    licence: 'apache-2.0',
    good_for: 'summaries, tools and work with documents',
    form: 'Granite 3, Phi 4 mini',
  },
  {
    name: 'granite4',
    tags: {
      micro: [`hf:bartowski/ibm-granite_granite-4.0-micro-GGUF:${Q4}`, 2100],
      tiny: [`hf:bartowski/ibm-granite_granite-4.0-h-tiny-GGUF:${Q4}`, 4250],
    },
    licence: 'apache-2.0',
    good_for: 'summaries, tools and work with documents',
    form: 'Hermes',
  },
  {
    name: 'lfm2.5',
    tags: {
      '1.2b': [`hf:LiquidAI/LFM2.5-1.2B-Instruct-GGUF:${Q4}`, 730],
      '8b': [`hf:LiquidAI/LFM2.5-8B-A1B-GGUF:${Q4}`, 5160],
    },
    licence: 'lfm1.0',
    good_for: 'fast answers and tools on small machines',
    form: 'LFM2',
  },
  {
    name: 'tinyllama',
    tags: { '1.1b': [`hf:TheBloke/TinyLlama-1.1B-Chat-v1.0-GGUF:${Q4}`, 670] },
    licence: 'apache-2.0',
    good_for: 'trials',
  },
  {
    name: 'nomic-embed-text',
    tags: { 'v1.5': ['hf:nomic-ai/nomic-embed-text-v1.5-GGUF:Q8_0', 146] },
    licence: 'apache-2.0',
    good_for: 'embeddings of English texts',
  },
  {
    name: 'qwen3-embedding',
    tags: { '0.6b': ['hf:Qwen/Qwen3-Embedding-0.6B-GGUF:Q8_0', 640] },
    licence: 'apache-2.0',
    good_for: 'embeddings in many languages',
  },
  {
    name: 'mxbai-embed-large',
    tags: { v1: ['hf:mixedbread-ai/mxbai-embed-large-v1/gguf/mxbai-embed-large-v1-f16.gguf', 670] },
    licence: 'apache-2.0',
    good_for: 'embeddings of English texts',
  },
];

/** The forms in which some of them call tools. */
export const knownForms = families.flatMap(({ form }) => form ?? []);

/** All of them; the usual tag of a name comes first. */
export const knownModels: readonly KnownModel[] = families.flatMap(
  ({ name, tags, licence, good_for, form }) =>
    Object.entries(tags).map(([tag, [reference, megabytes]]) => ({
      name: `${name}:${tag}`,
      reference,
      size_bytes: megabytes * 1_000_000,
      licence,
      good_for,
      tools: form !== undefined,
    })),
);

/** Finds a model by its short name, with or without a tag. Null: no such model. */
export function findKnown(text: string): KnownModel | null {
  const wanted = text.toLowerCase().replace(/:latest$/, '');
  const [name = '', tag] = wanted.split(':');
  const found = knownModels.filter((model) => model.name.split(':')[0] === name);
  return (tag === undefined ? found[0] : found.find((model) => model.name === wanted)) ?? null;
}

/** Whether a text has the form of a short name. */
export function isShortName(text: string): boolean {
  return /^[a-z0-9][\w.-]*(:[\w.-]+)?$/i.test(text) && !/^hf:|\.gguf$/i.test(text);
}

/** The name of its file in the models folder: a colon is not allowed in it. */
export function nameOfKnown({ name }: KnownModel): string {
  return name.replace(':', '-');
}

/** Models that have every word in their name, licence or purpose. */
export function searchKnown(words: readonly string[]): KnownModel[] {
  const wanted = words.flatMap((word) => word.toLowerCase().split(/\s+/)).filter(Boolean);
  return knownModels.filter(({ name, licence, good_for }) => {
    const text = `${name} ${licence} ${good_for}`.toLowerCase();
    return wanted.every((word) => text.includes(word));
  });
}
