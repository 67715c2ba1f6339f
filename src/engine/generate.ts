import type { Completion } from '../contract/events.ts';
import type { TokenLogprob } from '../contract/messages/parts.ts';
import { type ConfidenceRule, judge } from './confidence.ts';
import { Constraint } from './constraint.ts';
import type { Member } from './decode/decoder.ts';
import { Drafts } from './decode/drafts.ts';
import type { Parts } from './decode/prompt-parts.ts';
import { type Sampling, type Step, TokenSampler } from './decode/sampler.ts';
import type { Score } from './decode/scores.ts';
import type { Slot } from './decode/sequences.ts';
import { steps } from './decode/steps.ts';
import { answerForm, callableTools, requiredForm, thoughtBound } from './form.ts';
import type { LoadedModel } from './load.ts';
import type { Model, Token } from './native/model.ts';
import type { OutputBatcher } from './output-batcher.ts';
import { Pace } from './pace.ts';
import type { Prompt } from './prompt.ts';
import type { RunOrder } from './protocol/messages.ts';
import { AnswerPieces, checkTokens } from './reader/answer.ts';

export interface Generation {
  loaded: LoadedModel;
  slot: Slot;
  /** The run, for the batches. */
  member: Member;
  prompt: Prompt;
  /** How the prompt is computed. */
  parts: Parts;
  /** Tokens of the prompt that the sequence has from an earlier run. */
  kept: number;
  order: RunOrder;
  /** Whether no other run is active. */
  isAlone(): boolean;
  signal: AbortSignal;
  /** Receives the answer, in order. */
  output: Pick<OutputBatcher, 'push'>;
}

/** Default sampling temperature. */
const TEMPERATURE = 0.7;

/**
 * Answers one run, token by token. Checks the signal between two tokens and two batches of the
 * prompt; null: it aborted. The default temperature is 0 for the built-in model, else 0.7. Throws
 * capability_missing, resume_failed.
 */
export async function generate(generation: Generation): Promise<Completion | null> {
  const { loaded, order, prompt } = generation;
  const answer = openAnswer(loaded, order, prompt.isReasoning);
  const constraint = constraintOf(loaded, order, answer);
  try {
    return await generateWithin(generation, answer, constraint);
  } finally {
    constraint?.dispose();
  }
}

async function generateWithin(
  generation: Generation,
  answer: AnswerPieces,
  constraint: Constraint | null,
): Promise<Completion | null> {
  const { loaded, slot, member, parts, kept, order, signal, output } = generation;
  const { tokens: prompt } = generation.prompt;
  const { model, gate: rule, decoder, batch, states } = loaded;
  const answered = order.resume?.token_ids ?? [];
  const most = Math.min(order.max_tokens, loaded.context_length - prompt.length);
  const pace = new Pace();
  const drafts = draftsOf(generation, prompt.length + most);
  const isGeneric = loaded.template?.hasTools === false && callableTools(order).length > 0;
  let made = answered.length;
  const repetition = new Repetition(order.options.repetition_tokens ?? 0);
  let isRepeating = false;
  const finish = (reason: Reason, output_tokens = made): Completion => {
    output.push(answer.end(), null, null);
    const isWhole = reason === 'stop' && answer.reader.ended === null;
    return {
      ...endOf(answer, reason),
      ...(isGeneric ? { tool_form: 'generic' } : {}),
      ...(isWhole && constraint?.keepsForm === true ? { form: 'kept' } : {}),
      ...pace.speed(),
      usage: {
        input_tokens: prompt.length,
        output_tokens,
        ...(kept === 0 ? {} : { cached_tokens: kept }),
        ...drafts?.usage,
        ...(answer.reasoningTokens === 0 ? {} : { reasoning_tokens: answer.reasoningTokens }),
      },
    };
  };

  for (const token of answered) {
    constraint?.accept(token);
    isRepeating = repetition.push(token);
    output.push(answer.push(token), null, null);
    constraint?.advance();
  }
  const declined = loaded.fallback.slice(0, most);
  const whole = declined.length < loaded.fallback.length ? 'length' : 'stop';
  if (made > 0 && rule !== null && declined.every((token, index) => token === answered[index]))
    return finish(whole, declined.length);
  if (rule !== null && isUnreadable(loaded, prompt)) {
    for (const each of declined.slice(made)) output.push(answer.push(each), each, null);
    return finish(whole, declined.length);
  }
  if (answer.reader.ended !== null) return finish('stop');
  if (made >= most) return finish('length');
  if (isRepeating) return finish('repetition');
  // The filter judged an answer before its first output.
  const filter: ConfidenceFilter = createConfidenceFilter(made > 0 ? null : rule);
  const explained: TokenLogprob[] = [];
  const sampler = new TokenSampler(model, samplingOf(generation, constraint));
  const take = ({ token, score }: Step): Completion | null => {
    pace.note();
    const isEnd = loaded.stops.has(token) || model.isEogToken(token);
    if (!isEnd) {
      made += 1;
      isRepeating = repetition.push(token);
    }
    const isOver = isEnd || made >= most || isRepeating;
    if (!isEnd && score !== null && order.options.logprobs !== undefined)
      explained.push(tokenLogprob(model, token, score));
    const probability = score === null ? null : Math.exp(score.logprob ?? 0);
    const released = filter.accept(isEnd ? [] : [token], probability, isOver);
    if (released === 'declined') {
      for (const each of declined) output.push(answer.push(each), each, null);
      return finish(whole, declined.length);
    }
    for (const each of released) {
      output.push(answer.push(each), each, explained.shift() ?? null);
      if (answer.reader.ended !== null) return finish('stop');
    }
    constraint?.advance();
    return isOver ? finish(isEnd ? 'stop' : made >= most ? 'length' : 'repetition') : null;
  };
  const stepping = { decoder, member, slot, sampler, batch, states, drafts, take, signal };
  try {
    const completion = await steps({ prompt, parts, kept, answered }, stepping);
    if (completion === null) output.push(answer.end(), null, null);
    return completion;
  } finally {
    sampler.dispose();
  }
}

/** Null: each token is computed by itself. A wrong guess needs a sequence that can go back. */
function draftsOf(
  { loaded, member, prompt, order, isAlone }: Generation,
  most: number,
): Drafts | null {
  if (member.exact || loaded.states !== null) return null;
  const { tokenCost: cost, draft: model } = loaded;
  const tokens = [...prompt.tokens, ...(order.resume?.token_ids ?? [])];
  return new Drafts({ tokens, most, cost, model, isAlone });
}

/** How an answer ends that its text does not end. */
type Reason = 'stop' | 'length' | 'repetition';

/** The built-in model was trained on short questions, and says nonsense about a long text. */
function isUnreadable({ built_in }: LoadedModel, prompt: readonly Token[]): boolean {
  return built_in && prompt.length > QUESTION_TOKENS;
}

/** Longer than its longest questions, with their template. */
const QUESTION_TOKENS = 128;

/** Throws resume_failed for tokens that the model does not have. */
function openAnswer(loaded: LoadedModel, order: RunOrder, isReasoning: boolean): AnswerPieces {
  const { model, controlTexts } = loaded;
  checkTokens(order.resume?.token_ids ?? [], model.vocabulary);
  return new AnswerPieces({
    form: answerForm(loaded, order, isReasoning),
    detokenize: (tokens, before) => model.detokenize(tokens, false, before),
    controlText: (token) => controlTexts.get(token) ?? null,
    delivered: order.resume,
  });
}

/** Null: any token may come next, from the first to the last. */
function constraintOf(
  loaded: LoadedModel,
  order: RunOrder,
  answer: AnswerPieces,
): Constraint | null {
  const required = requiredForm(loaded, order);
  const thoughts = thoughtBound(loaded, order);
  return required === null && thoughts === null
    ? null
    : new Constraint(loaded, { required, thoughts }, answer);
}

function endOf(
  { reader }: AnswerPieces,
  reason: Reason,
): Pick<Completion, 'finish_reason' | 'stop_sequence'> {
  const { ended } = reader;
  if (ended?.reason === 'stop') return { finish_reason: 'stop', stop_sequence: ended.text };
  if (ended?.reason === 'calls') return { finish_reason: 'tool_calls' };
  return { finish_reason: reason === 'stop' && reader.hasCalls ? 'tool_calls' : reason };
}

function samplingOf({ loaded, order }: Generation, constraint: Constraint | null): Sampling {
  return {
    temperature: order.temperature ?? (loaded.built_in ? 0 : TEMPERATURE),
    seed: order.seed,
    options: order.options,
    ...(constraint === null ? {} : { grammar: () => constraint.state }),
    judged: loaded.gate?.tokens ?? 0,
    explained: order.options.logprobs ?? null,
  };
}

interface ConfidenceFilter {
  /**
   * Returns the tokens to send now, or that the answer is declined. `isEnd`: no more tokens come.
   */
  accept(
    tokens: readonly Token[],
    probability: number | null,
    ended: boolean,
  ): readonly Token[] | 'declined';
}

/**
 * Buffers the first tokens of an answer until the rule judges them. Without a rule, sends all
 * tokens.
 */
function createConfidenceFilter(rule: ConfidenceRule | null): ConfidenceFilter {
  if (rule === null) return { accept: (tokens) => tokens };
  const probabilities: number[] = [];
  let buffered: Token[] = [];
  let isOpen = false;
  return {
    accept(tokens, probability, ended) {
      if (isOpen) return tokens;
      buffered.push(...tokens);
      probabilities.push(probability ?? 0);
      const verdict = judge(rule, probabilities, ended);
      if (verdict === 'declined') return 'declined';
      if (verdict === 'undecided') return [];
      isOpen = true;
      const released = buffered;
      buffered = [];
      return released;
    },
  };
}

function tokenLogprob(model: Model, token: Token, { logprob, top }: Score): TokenLogprob {
  const entry = (each: { token: Token; logprob: number | null }) => ({
    token: model.detokenize([each.token], true),
    logprob: each.logprob ?? 0,
  });
  return { ...entry({ token, logprob }), top: top.map(entry) };
}

/**
 * Whether an answer repeats itself without end: its last tokens are one sequence, again and again.
 *
 * 1. The repetition has `least` tokens, and the sequence comes `TIMES_LEAST` times. 0: never.
 * 2. It depends on the tokens of the answer alone. A resumed answer therefore stops at the same
 *    token.
 * 3. A token costs the same, however long the answer is.
 */
export class Repetition {
  private readonly least: number;
  /** The last tokens, in a ring. */
  private readonly last = new Int32Array(PERIOD_MAX);
  /**
   * For each distance: how many of the last tokens equal the token at that distance before them.
   */
  private readonly same = new Uint32Array(PERIOD_MAX + 1);
  private count = 0;

  constructor(least: number) {
    this.least = least;
  }

  /** Adds a token. True: the answer repeats itself. */
  push(token: number): boolean {
    if (this.least === 0) return false;
    const { last, same, count } = this;
    let repeats = false;
    const most = Math.min(PERIOD_MAX, count);
    for (let period = 1; period <= most; period += 1) {
      const isSame = last[(count - period) % PERIOD_MAX] === token;
      const tokens = isSame ? (same[period] as number) + 1 : 0;
      same[period] = tokens;
      if (tokens + period >= Math.max(this.least, period * TIMES_LEAST)) repeats ||= isSame;
    }
    last[count % PERIOD_MAX] = token;
    this.count += 1;
    return repeats;
  }
}

/** A longer sequence that repeats itself is not noticed. */
const PERIOD_MAX = 256;
/** A table may have some equal rows. */
const TIMES_LEAST = 16;
