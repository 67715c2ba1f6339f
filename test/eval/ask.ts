import { readFile } from 'node:fs/promises';
import {
  type ChatWrapper,
  getLlama,
  type LlamaContextSequence,
  type LlamaModel,
  LlamaText,
  resolveChatWrapper,
  type Token,
} from 'node-llama-cpp';
import { type ConfidenceRule, confidence } from '../../src/engine/confidence.ts';
import { defaultLimits } from '../../src/limits.ts';
import { checkGguf } from '../../src/models/gguf/check.ts';

export const modelFile = new URL('../../src/providers/mini/svc-mini.gguf', import.meta.url)
  .pathname;

export interface Answer {
  readonly text: string;
  readonly tokens: readonly number[];
  /** Whether the model ended by itself, before the bound on tokens. */
  readonly ended: boolean;
  /** Of each token, in order. */
  readonly probabilities: readonly number[];
  readonly confidence: number;
}

export interface Asker {
  readonly rule: ConfidenceRule;
  readonly fallback: string;
  ask(prompt: string): Promise<Answer>;
  close(): Promise<void>;
}

const answerTokensMax = 160;

export async function metadataOf(file: string): Promise<Record<string, unknown>> {
  const [{ entries }] = await checkGguf(file, defaultLimits.model_header_bytes);
  return Object.fromEntries(entries.keys.map((key) => [key, entries.value(key)]));
}

/**
 * Asks the model as the engine does: through its chat template, greedily, one turn, on one thread.
 */
export async function openAsker(file: string = modelFile): Promise<Asker> {
  const metadata = await metadataOf(file);
  const rule = {
    tokens: Number(metadata['svc.confidence.tokens']),
    minimum: Number(metadata['svc.confidence.minimum']),
  };
  const llama = await getLlama({ gpu: false, build: 'never', logLevel: 'disabled' as never });
  const model = await llama.loadModel({ modelPath: file, gpuLayers: 0 });
  const context = await model.createContext({ contextSize: 512, threads: 1, sequences: 1 });
  const sequence = context.getSequence();
  const wrapper = resolveChatWrapper(model, { type: 'jinjaTemplate' });
  return {
    rule,
    fallback: String(metadata['svc.confidence.fallback']),
    ask: (prompt) => answer(sequence, rule, promptTokens(model, wrapper, prompt)),
    close: async () => {
      await context.dispose();
      await model.dispose();
      await llama.dispose();
    },
  };
}

function promptTokens(model: LlamaModel, wrapper: ChatWrapper, prompt: string): Token[] {
  const chatHistory = [
    { type: 'user' as const, text: prompt },
    { type: 'model' as const, response: [] },
  ];
  return LlamaText(wrapper.generateContextState({ chatHistory }).contextText).tokenize(
    model.tokenizer,
  );
}

async function answer(
  sequence: LlamaContextSequence,
  rule: ConfidenceRule,
  prompt: Token[],
): Promise<Answer> {
  const { model } = sequence;
  await sequence.clearHistory();
  const tokens: Token[] = [];
  const probabilities: number[] = [];
  let ended = false;
  for await (const step of sequence.evaluateWithMetadata(
    prompt,
    { confidence: true },
    { temperature: 0, yieldEogToken: true },
  )) {
    tokens.push(step.token);
    probabilities.push(step.confidence);
    ended = model.isEogToken(step.token);
    if (ended || tokens.length >= answerTokensMax) break;
  }
  const spoken = ended ? tokens.slice(0, -1) : tokens;
  return {
    text: model.detokenize(spoken),
    tokens,
    ended,
    probabilities,
    confidence: confidence(rule, probabilities),
  };
}

export async function readLines(file: URL): Promise<string[]> {
  return (await readFile(file, 'utf8'))
    .split('\n')
    .filter((line) => line.trim() !== '' && !line.startsWith('//'));
}
