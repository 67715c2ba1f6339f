import type { Reading, ReadToken } from '../contract/reading.ts';
import { SvcError } from '../errors.ts';
import type { Score } from './decode/scores.ts';
import type { LoadedModel } from './load.ts';
import type { Model, Token } from './native/model.ts';
import { promptOfOrder, tooLong, withBegin } from './prompt.ts';
import type { ReadOrder } from './protocol/messages.ts';

/** The tokens of the input. Throws invalid_request, capability_missing, engine_timed_out. */
export function tokensOf(loaded: LoadedModel, { of, begins, control }: ReadOrder): Token[] {
  const { model, structure } = loaded;
  if (typeof of === 'string') {
    const tokens = control
      ? model.tokenize(of, true)
      : structure.tokenize(model, structure.cut(of));
    return begins ? withBegin(model, tokens) : tokens;
  }
  if ('messages' in of) return promptOfOrder(loaded, of).tokens;
  const { vocabulary: length } = model;
  const wrong = of.findIndex((id) => id >= length);
  if (wrong < 0) return [...of];
  throw new SvcError('invalid_request', `The model has no token ${of[wrong]}: it has ${length}.`, {
    param: 'tokens',
    hint: 'The ids are of the tokenizer of one model. Use those of this one.',
  });
}

/** Throws context_length_exceeded for tokens that cannot be computed. */
export function checkLength({ length }: readonly Token[], { context_length }: LoadedModel): void {
  if (length > context_length) throw tooLong(`${length}`, context_length);
}

/** `scores`: of the token after each. Null: they were not computed. */
export function readingOf(
  model: Model,
  tokens: readonly Token[],
  scores: readonly Score[] | null,
): Reading {
  const shown = new Shown(model);
  const likely = (score: Score | undefined) =>
    (score?.top ?? []).map(({ token, logprob }) => ({ ...shown.of(token), logprob }));
  return {
    text: model.detokenize(tokens, true),
    tokens: tokens.map((token, at) => {
      const score = scores?.[at - 1];
      const logprob = score?.logprob ?? null;
      return { ...shown.of(token), ...(logprob === null ? {} : { logprob, top: likely(score) }) };
    }),
    ...(scores === null ? {} : { next: likely(scores.at(-1)) }),
  };
}

/** The tokens of a model, as they are shown. */
class Shown {
  private readonly model: Model;
  private readonly known = new Map<Token, ReadToken>();

  constructor(model: Model) {
    this.model = model;
  }

  of(token: Token): ReadToken {
    const known = this.known.get(token) ?? this.read(token);
    this.known.set(token, known);
    return known;
  }

  private read(id: Token): ReadToken {
    const text = this.model.detokenize([id], true);
    return text.includes('\ufffd') ? { id, text, bytes: this.model.bytesOf(id) } : { id, text };
  }
}
