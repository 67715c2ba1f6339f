import type { LlamaContext, LlamaGrammarEvaluationState, LlamaModel, Token } from 'node-llama-cpp';
import { SvcError } from '../../../../errors.ts';

/**
 * The parts of node-llama-cpp behind its public classes, which call llama.cpp. Only this file knows
 * them. Why they are used: docs/decisions/0043.
 */

/** A context of llama.cpp. Its sequences have the numbers from 0. */
export interface NativeContext {
  initBatch(tokens: number): void;
  /**
   * Adds tokens of a sequence from its position `at`. Returns the indexes in the batch of the
   * tokens that `wanted` names, each by its index in `tokens`.
   */
  addToBatch(sequence: number, at: number, tokens: Uint32Array, wanted: Uint32Array): Uint32Array;
  /** Computes the batch in another thread. Rejects if that fails. */
  decodeBatch(): Promise<void>;
  /** The token that follows the one with this index in the last batch, or -1. */
  sampleToken(index: number, sampler: NativeSampler): Promise<number>;
  /** As above, with the probability of the token. */
  sampleToken(
    index: number,
    sampler: NativeSampler,
    probabilities: false,
    confidence: true,
  ): Promise<[token: number, probabilities?: never, confidence?: number]>;
  /**
   * As above, with [token, logit] pairs in one list and the sum of all weights: those of the
   * likeliest tokens, then those of the wanted ones. The weight of the likeliest one is 1.
   */
  sampleToken(
    index: number,
    sampler: NativeSampler,
    probabilities: false,
    confidence: false,
    logits: [wanted: readonly number[], highest: false, lowest: false, own: false, most: number],
    weight: true,
  ): Promise<
    [token: number, probabilities?: never, confidence?: never, logits?: number[], weight?: number]
  >;
  /** To -1: to the end. False: the memory of this model cannot forget only a part. */
  removeTokenCellsFromSequence(sequence: number, from: number, to: number): boolean;
  /** The first position that is still in memory. -1: none is. */
  getSequenceKvCacheMinPosition(sequence: number): number;
  disposeSequence(sequence: number): void;
  /** Writes what a sequence has computed. Rejects if that fails. */
  saveSequenceStateToFile(path: string, sequence: number, tokens: Uint32Array): Promise<number>;
  /** Returns the tokens of the file. Bytes of another context can end the process. */
  loadSequenceStateFromFile(path: string, sequence: number, most: number): Promise<Uint32Array>;
  /** Bytes of all sequences together. */
  getStateSize(): number;
  setThreads(threads: number): void;
}

export interface NativeSampler {
  applyConfig(config: SamplerConfig): void;
  dispose(): void;
}

/** The fields that are used. An absent one is off. */
export interface SamplerConfig {
  temperature: number;
  seed: number;
  minP: number;
  topK: number;
  topP: number;
  repeatPenalty?: number;
  repeatPenaltyPresencePenalty?: number;
  repeatPenaltyFrequencyPenalty?: number;
  repeatPenaltyMaxTokens?: number;
  repeatPenaltyTokens?: Uint32Array;
  /** What is added to the logits of these tokens. */
  tokenBiasKeys?: Uint32Array;
  tokenBiasValues?: Float32Array;
  grammarEvaluationState?: unknown;
}

interface NativeModel {
  llama: { _bindings?: Partial<NativeBindings> };
  _model: unknown;
}

interface NativeBindings {
  AddonSampler: {
    new (model: unknown): NativeSampler;
    acceptGrammarEvaluationStateToken(state: unknown, token: Token): void;
  };
}

/** Throws engine_missing if the library has another form than the pinned version. */
export function nativeContext(context: LlamaContext): NativeContext {
  const native = (context as unknown as { _ctx?: Partial<NativeContext> })._ctx;
  const { llama, _model } = context.model as unknown as Partial<NativeModel>;
  const { AddonSampler } = llama?._bindings ?? {};
  const missing: string[] = METHODS.filter((name) => typeof native?.[name] !== 'function');
  if (typeof AddonSampler?.acceptGrammarEvaluationStateToken !== 'function')
    missing.push('AddonSampler');
  if (_model === undefined) missing.push('_model');
  if (missing.length > 0)
    throw new SvcError('engine_missing', undefined, {
      cause: new Error(`node-llama-cpp has no ${missing.join(', ')}`),
    });
  return native as NativeContext;
}

const METHODS = [
  ...(['initBatch', 'addToBatch', 'decodeBatch', 'sampleToken', 'setThreads'] as const),
  ...(['removeTokenCellsFromSequence', 'disposeSequence'] as const),
  ...(['saveSequenceStateToFile', 'loadSequenceStateFromFile', 'getStateSize'] as const),
  'getSequenceKvCacheMinPosition',
] as const satisfies readonly (keyof NativeContext)[];

export function newSampler(model: LlamaModel): NativeSampler {
  const { AddonSampler } = bindingsOf(model);
  return new AddonSampler((model as unknown as { _model: unknown })._model);
}

/** What a sampler takes as the state of a grammar. */
export function nativeState(state: LlamaGrammarEvaluationState): unknown {
  return (state as unknown as { _state: unknown })._state;
}

/** Notes a token that another process sampled. Throws for a token that cannot be next. */
export function acceptToken(
  model: LlamaModel,
  state: LlamaGrammarEvaluationState,
  token: Token,
): void {
  bindingsOf(model).AddonSampler.acceptGrammarEvaluationStateToken(nativeState(state), token);
}

/** Whether the memory of a sequence cannot go back to an earlier token. */
export function cannotGoBack(model: LlamaModel): boolean {
  const { isHybrid, isRecurrent, swaSize } = model.fileInsights;
  return isHybrid || isRecurrent || swaSize !== undefined;
}

function bindingsOf({ llama }: LlamaModel): NativeBindings {
  return (llama as unknown as { _bindings: NativeBindings })._bindings;
}
