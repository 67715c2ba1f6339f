import type { LlamaModel, Token } from 'node-llama-cpp';

const TOKENS_LEAST = 2;
const TOKENS_MOST = 64;
const CONTEXT_TOKENS = 256;

/**
 * Measures tokens per second of a short greedy answer. The first token warms caches and does not
 * count.
 */
export async function measureSpeed(
  model: LlamaModel,
  threads: number,
  limitMs: number,
): Promise<number> {
  const context = await model.createContext({
    contextSize: Math.min(CONTEXT_TOKENS, model.trainContextSize),
    sequences: 1,
    threads,
  });
  try {
    return await speedOf(context.getSequence(), startToken(model), limitMs);
  } finally {
    await context.dispose();
  }
}

async function speedOf(
  sequence: ReturnType<Awaited<ReturnType<LlamaModel['createContext']>>['getSequence']>,
  start: Token,
  limitMs: number,
): Promise<number> {
  let counted = -1;
  let startedAt = performance.now();
  for await (const _ of sequence.evaluate([start], { temperature: 0, yieldEogToken: true })) {
    counted += 1;
    if (counted === 0) startedAt = performance.now();
    else if (
      counted >= TOKENS_MOST ||
      (counted >= TOKENS_LEAST && performance.now() - startedAt > limitMs)
    )
      break;
  }
  return (counted * 1000) / Math.max(0.001, performance.now() - startedAt);
}

function startToken(model: LlamaModel): Token {
  return model.tokens.bos ?? model.tokens.eos ?? (model.tokenize('a')[0] as Token);
}
