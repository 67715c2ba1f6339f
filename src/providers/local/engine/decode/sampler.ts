import type { LlamaGrammarEvaluationState, LlamaModel, Token } from 'node-llama-cpp';
import type { AnswerOptions } from '../../../../contract/options.ts';
import { SvcError } from '../../../../errors.ts';
import type { Sample } from './decoder.ts';
import { type NativeSampler, nativeState, newSampler, type SamplerConfig } from './native.ts';
import { type Score, Scorer } from './scores.ts';

export interface Step {
  token: Token;
  /** Probability of the token. Null: not requested. */
  probability: number | null;
  /** How likely it is by the model alone. Null: not requested. */
  score: Score | null;
}

export interface Sampling {
  temperature: number;
  seed: number;
  /** Absent: the defaults below. */
  options?: AnswerOptions;
  /** The grammar that the next token must follow. */
  grammar?: () => LlamaGrammarEvaluationState | undefined;
  /** Number of first tokens with their probability. */
  judged: number;
  /** Each token with its score, and so many of the likeliest ones. Null: no scores. */
  explained: number | null;
}

/** Usual values of a chat model, which node-llama-cpp has too. */
const DEFAULTS = { topK: 40, topP: 0.95, minP: 0 };
/** The penalties count at least so many last tokens. */
const PENALIZED_LEAST = 64;

/**
 * Samples the tokens of one run.
 *
 * 1. Each token has its own seed, so a resumed answer continues identically.
 */
export class TokenSampler {
  private readonly native: NativeSampler;
  private readonly scorer: Scorer | null;
  private readonly sampling: Sampling;
  private readonly usual: SamplerConfig;
  /** What is added to the odds of each token. */
  private readonly biases: readonly (readonly [Token, number])[];
  /** Null: none. */
  private readonly penalties: Partial<SamplerConfig> | null;
  /** Whether a token ends a sequence, as far as it was asked. */
  private readonly breaks = new Map<Token, boolean>();
  private readonly model: LlamaModel;

  constructor(model: LlamaModel, sampling: Sampling) {
    const { temperature, seed, options = {} } = sampling;
    this.model = model;
    this.native = newSampler(model);
    this.scorer = sampling.explained === null ? null : new Scorer(model);
    this.sampling = sampling;
    this.usual = {
      temperature,
      seed,
      topP: options.top_p ?? DEFAULTS.topP,
      topK: options.top_k ?? DEFAULTS.topK,
      minP: options.min_p ?? DEFAULTS.minP,
    };
    this.penalties = penaltiesOf(options);
    this.biases = biasesOf(model, options);
  }

  /** The token after all that the answer has. Throws engine_failed if no token can follow. */
  after(answer: readonly Token[]): Sample<Step> {
    return async (context, index) => {
      const { judged, explained } = this.sampling;
      const judging = answer.length < judged;
      const config = this.config(answer);
      this.native.applyConfig(config);
      const before = process.cpuUsage();
      const [token, , confidence] = judging
        ? await context.sampleToken(index, this.native, false, true)
        : ([await context.sampleToken(index, this.native)] as const);
      if (token < 0) throw new SvcError('engine_failed');
      if (config.grammarEvaluationState !== undefined) boundForm(process.cpuUsage(before));
      return {
        token: token as Token,
        probability: confidence ?? null,
        score: (await this.scorer?.at(context, index, token as Token, explained ?? 0)) ?? null,
      };
    };
  }

  dispose(): void {
    this.native.dispose();
    this.scorer?.dispose();
  }

  /**
   * A sampler of llama.cpp does this, with a history that the library cannot set: a resumed answer
   * would continue otherwise. Here the tokens say all.
   */
  private repetitions(answer: readonly Token[], multiplier: number): [Token, number][] {
    const begin = answer.findLastIndex((token) => this.isBreaker(token)) + 1;
    const most = Math.min(answer.length - begin, DRY_MATCH_MAX);
    return [...repeatedBefore(answer, most)]
      .filter(([token]) => !this.isBreaker(token))
      .map(([token, length]) => [token, -multiplier * DRY.base ** (length - DRY.allowed)]);
  }

  private isBreaker(token: Token): boolean {
    const known = this.breaks.get(token);
    if (known !== undefined) return known;
    const breaks = DRY.breakers.test(this.model.detokenize([token]));
    this.breaks.set(token, breaks);
    return breaks;
  }

  private config(answer: readonly Token[]): SamplerConfig {
    const { temperature, seed, grammar, options = {} } = this.sampling;
    const state = grammar?.();
    const { dry_multiplier: dry } = options;
    const biases = dry ? [...this.biases, ...this.repetitions(answer, dry)] : this.biases;
    return {
      ...this.usual,
      // Another seed costs a new chain of samplers, and the most likely token needs none.
      seed: temperature > 0 ? seedAt(seed, answer.length) : seed,
      ...(state === undefined ? {} : { grammarEvaluationState: nativeState(state) }),
      ...(this.penalties === null
        ? {}
        : {
            ...this.penalties,
            repeatPenaltyMaxTokens: Math.max(PENALIZED_LEAST, answer.length),
            repeatPenaltyTokens: Uint32Array.from(answer),
          }),
      ...(biases.length === 0 ? {} : summed(biases)),
    };
  }
}

/** Throws invalid_request for a token that the model does not have. */
function biasesOf(model: LlamaModel, { logit_bias = {} }: AnswerOptions): [Token, number][] {
  const { length } = model.fileInfo.metadata.tokenizer?.ggml?.tokens ?? [];
  return Object.entries(logit_bias).map(([id, bias]) => {
    if (Number(id) >= length)
      throw new SvcError('invalid_request', `The model has no token ${id}: it has ${length}.`, {
        param: 'logit_bias',
        hint: 'The ids are of the tokenizer of one model. Use those of the model that you ask.',
      });
    return [Number(id) as Token, bias];
  });
}

/** A token that is there twice has the sum. */
function summed(biases: readonly (readonly [Token, number])[]): Partial<SamplerConfig> {
  const sums = new Map<Token, number>();
  for (const [token, bias] of biases) sums.set(token, (sums.get(token) ?? 0) + bias);
  return {
    tokenBiasKeys: Uint32Array.from(sums.keys()),
    tokenBiasValues: Float32Array.from(sums.values()),
  };
}

/** As llama.cpp has them by default: a repetition of two tokens is no repetition yet. */
const DRY = { base: 1.75, allowed: 2, breakers: /[\n:"*]/ };
/** A longer repetition is as unlikely as one of this length: it does not happen. */
const DRY_MATCH_MAX = 64;

/** Penalties make tokens that the answer has less likely, and count all tokens of the answer. */
function penaltiesOf(options: AnswerOptions): Partial<SamplerConfig> | null {
  const { presence_penalty = 0, frequency_penalty = 0, repeat_penalty = 1 } = options;
  if (presence_penalty === 0 && frequency_penalty === 0 && repeat_penalty === 1) return null;
  return {
    repeatPenalty: repeat_penalty,
    repeatPenaltyPresencePenalty: presence_penalty,
    repeatPenaltyFrequencyPenalty: frequency_penalty,
  };
}

/**
 * The longest sequence that each next token would repeat: the answer has it before that token, and
 * now at its end.
 */
function repeatedBefore(answer: readonly Token[], most: number): Map<Token, number> {
  const longest = new Map<Token, number>();
  const last = answer.length - 1;
  for (let end = 0; end < last; end += 1) {
    let length = 0;
    while (length < most && length <= end && answer[end - length] === answer[last - length])
      length += 1;
    const next = answer[end + 1] as Token;
    if (length >= DRY.allowed) longest.set(next, Math.max(length, longest.get(next) ?? 0));
  }
  return longest;
}

/**
 * Ends an answer whose form is so ambiguous that llama.cpp has more and more ways to go on. It
 * cannot be stopped within a token, and other runs wait for it.
 */
function boundForm({ user, system }: NodeJS.CpuUsage): void {
  if ((user + system) / 1000 <= FORM_MS) return;
  throw new SvcError(
    'capability_missing',
    'The form of the answer leaves too many ways to go on: one token took more than ' +
      `${FORM_MS / 1000} s of processor time.`,
    { param: 'response_format', hint: 'Use fewer values and forms that begin alike.' },
  );
}

/** Well within the time that a cancelled run has to stop. */
const FORM_MS = 4000;

/**
 * The seed of one token, from the seed of the run and the position. So a resumed answer continues
 * identically. Never returns the value that means "random" in llama.cpp.
 */
export function seedAt(seed: number, position: number): number {
  let mixed = (seed ^ Math.imul(position + 1, 0x9e3779b1)) >>> 0;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 1;
}
