import { usedCpuMs } from '../../async/timers.ts';
import { Decoder, newMember } from '../decode/decoder.ts';
import { TokenSampler } from '../decode/sampler.ts';
import type { Model, Token } from '../native/model.ts';

const TOKENS_LEAST = 2;
const TOKENS_MOST = 64;
const CONTEXT_TOKENS = 256;

/** Milliseconds since some moment. */
type Clock = () => number;

const wallMs: Clock = () => performance.now();

/** The clock for the model's own time: beside other work, a CPU runs it only now and then. */
export function ownClock({ llama }: Model): Clock {
  return llama.gpu === null ? usedCpuMs : wallMs;
}

interface Measuring {
  threads: number;
  limitMs: number;
  /** Answers in one batch. */
  answers?: number;
  clock?: Clock;
}

/** Answers that say how fast several are: with more the gain grows. */
export const TOGETHER = 4;

/**
 * Measures tokens per second of short greedy answers. The first token of each warms caches and does
 * not count.
 */
export async function measureSpeed(model: Model, measuring: Measuring): Promise<number> {
  const { answers = 1, threads } = measuring;
  const context = model.createContext({
    contextSize: Math.min(CONTEXT_TOKENS, model.trainContextSize),
    sequences: answers,
    batch: answers,
    threads,
  });
  try {
    const decoder = new Decoder(context, threads, answers);
    const measured = await Promise.allSettled(
      Array.from({ length: answers }, (_, place) => speedOf(model, decoder, place, measuring)),
    );
    // The context is used until the last one has ended.
    return measured.reduce((sum, one) => {
      if (one.status === 'rejected') throw one.reason;
      return sum + one.value;
    }, 0);
  } finally {
    context.dispose();
  }
}

async function speedOf(
  model: Model,
  decoder: Decoder,
  place: number,
  { limitMs, clock = wallMs }: Measuring,
): Promise<number> {
  const member = newMember({ exact: false, batched: false });
  const sequence = { place, tokens: [] };
  const sampler = new TokenSampler(model, GREEDY);
  let next = startToken(model);
  let counted = -1;
  let [end, began] = [0, 0];
  try {
    for (;;) {
      const { token } = await decoder.compute(member, sequence, [next], sampler.after([]));
      next = token;
      counted += 1;
      if (counted === 0) [end, began] = [wallMs() + limitMs, clock()];
      else if (counted >= TOKENS_MOST || (counted >= TOKENS_LEAST && wallMs() > end)) break;
    }
  } finally {
    decoder.leave(member);
    sampler.dispose();
  }
  return (counted * 1000) / Math.max(0.001, clock() - began);
}

const GREEDY = { temperature: 0, seed: 0, judged: 0, explained: null };

function startToken(model: Model): Token {
  return model.tokens.bos ?? model.tokens.eos ?? (model.tokenize('a')[0] as Token);
}
