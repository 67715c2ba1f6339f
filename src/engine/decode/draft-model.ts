import { SvcError } from '../../errors.ts';
import type { Context } from '../native/context.ts';
import type { Model, Token } from '../native/model.ts';
import { messages } from './decoder.ts';
import { scoreOf } from './scores.ts';
import { vocabularyProblem } from './vocabulary.ts';

export interface DraftModelOptions {
  /** Tokens of one batch. */
  batch: number;
  threads: number;
}

/**
 * A smaller model that guesses the next tokens of a larger one with the same vocabulary.
 *
 * 1. It has one sequence, for the run that asked last. What two runs have in common stays.
 * 2. It computes in its own context, while the larger model computes nothing.
 */
export class DraftModel {
  /** The cost of one of its tokens. 1 is the cost of a token of the larger model. */
  readonly cost: number;
  private readonly model: Model;
  private readonly context: Context;
  private readonly options: DraftModelOptions;
  private readonly computed: Token[] = [];

  constructor(context: Context, model: Model, options: DraftModelOptions) {
    [this.context, this.model, this.options] = [context, model, options];
    this.cost = context.model.bytes / model.bytes;
  }

  /**
   * The likeliest next tokens, while all of them together are at least so likely. Empty: the text
   * is too long for it or has tokens that it lacks, or no guess is wanted any more.
   */
  async guess(
    tokens: Int32Array,
    { most, least, isWanted }: { most: number; least: number; isWanted(): boolean },
  ): Promise<Token[]> {
    if (tokens.length + most > this.context.contextSize) return [];
    this.goBack(tokens);
    let logits: Float32Array | null = null;
    while (this.computed.length < tokens.length) {
      if (logits !== null) await messages();
      if (!isWanted()) return [];
      const from = this.computed.length;
      const part = [...tokens.subarray(from, from + this.options.batch)];
      // Its vocabulary may be shorter.
      if (part.some((token) => token >= this.context.model.vocabulary)) return [];
      logits = this.compute(part);
    }
    const guesses: Token[] = [];
    for (let likely = 1; logits !== null && guesses.length < most; ) {
      const [best] = scoreOf(logits, null, 1).top;
      likely *= Math.exp(best?.logprob ?? Number.NEGATIVE_INFINITY);
      if (best === undefined || likely < least || best.token >= this.model.vocabulary) break;
      guesses.push(best.token);
      logits = guesses.length < most ? this.compute([best.token]) : null;
    }
    return guesses;
  }

  /** Forgets what these tokens do not begin with. The last one of them is computed again. */
  private goBack(tokens: Int32Array): void {
    const { computed, context } = this;
    const most = Math.min(computed.length, tokens.length - 1);
    let same = 0;
    while (same < most && computed[same] === tokens[same]) same += 1;
    if (same === computed.length) return;
    computed.length = same;
    context.forget(0, same);
  }

  /** What may follow these tokens. */
  private compute(tokens: readonly Token[]): Float32Array {
    const { computed, context } = this;
    context.setThreads(this.options.threads);
    context.initBatch();
    const [index = 0] = context.addToBatch(0, computed.length, tokens, [tokens.length - 1]);
    context.decodeBatch();
    computed.push(...tokens);
    return context.logits(index);
  }
}

/** Throws model_invalid, with the name, for a model that cannot guess the tokens of another one. */
export function checkDraft(model: Model, draft: Model, name: string): void {
  const unfit = (why: string) =>
    new SvcError('model_invalid', `The draft model ${name} does not fit: ${why}.`, {
      hint: 'Correct model_drafts: a smaller model of the same family usually fits.',
    });
  const { isHybrid, isRecurrent } = draft.kind;
  if (isHybrid || isRecurrent) throw unfit('its memory cannot go back to an earlier token');
  const problem = vocabularyProblem(model, draft);
  if (problem !== null) throw unfit(problem);
}
