import type { EvaluationPriority, LlamaContextSequence, LlamaModel, Token } from 'node-llama-cpp';
import { Batches } from '../batches.ts';

const TOKENS_LEAST = 2;
const TOKENS_MOST = 64;
const CONTEXT_TOKENS = 256;

/** Milliseconds since some moment. */
type Clock = () => number;

const wallMs: Clock = () => performance.now();
const cpuMs: Clock = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};

/** The clock of what the model itself needs: beside other work a CPU computes only now and then. */
export function ownClock({ llama }: LlamaModel): Clock {
  return llama.gpu === false ? cpuMs : wallMs;
}

/**
 * Measures tokens per second of a short greedy answer. The first token warms caches and does not
 * count.
 */
export async function measureSpeed(
  model: LlamaModel,
  threads: number,
  limitMs: number,
  clock = wallMs,
): Promise<number> {
  const context = await model.createContext({
    contextSize: Math.min(CONTEXT_TOKENS, model.trainContextSize),
    sequences: 1,
    threads,
  });
  try {
    return await speedOf(context.getSequence(), startToken(model), { limitMs, clock });
  } finally {
    await context.dispose();
  }
}

/** Runs of the measurement: with more the gain grows. */
const TOGETHER = 4;

/** Measures tokens per second of several such answers in one batch. */
export async function measureTogether(
  model: LlamaModel,
  threads: number,
  limitMs: number,
  clock = wallMs,
): Promise<number> {
  const batches = new Batches();
  const context = await model.createContext({
    contextSize: Math.min(CONTEXT_TOKENS, model.trainContextSize),
    sequences: TOGETHER,
    threads,
    batching: batches.options,
  });
  try {
    const speeds = await Promise.all(
      Array.from({ length: TOGETHER }, (_, place) => {
        const member = batches.enter({ exact: false, batched: false });
        member.place = place;
        return speedOf(
          context.getSequence(),
          startToken(model),
          { limitMs, clock },
          member.priority,
        );
      }),
    );
    return speeds.reduce((sum, speed) => sum + speed, 0);
  } finally {
    await context.dispose();
  }
}

async function speedOf(
  sequence: LlamaContextSequence,
  start: Token,
  { limitMs, clock }: { limitMs: number; clock: Clock },
  priority?: EvaluationPriority,
): Promise<number> {
  let counted = -1;
  let [end, began] = [0, 0];
  const options = { temperature: 0, yieldEogToken: true };
  const own = priority === undefined ? options : { ...options, evaluationPriority: priority };
  for await (const _ of sequence.evaluate([start], own)) {
    counted += 1;
    if (counted === 0) [end, began] = [wallMs() + limitMs, clock()];
    else if (counted >= TOKENS_MOST || (counted >= TOKENS_LEAST && wallMs() > end)) break;
  }
  return (counted * 1000) / Math.max(0.001, clock() - began);
}

function startToken(model: LlamaModel): Token {
  return model.tokens.bos ?? model.tokens.eos ?? (model.tokenize('a')[0] as Token);
}
