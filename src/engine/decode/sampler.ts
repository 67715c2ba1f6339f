import koffi from 'koffi';
import { usedCpuMs } from '../../async/timers.ts';
import type { AnswerOptions } from '../../contract/options.ts';
import { SvcError } from '../../errors.ts';
import type { Functions, Pointer } from '../native/abi.ts';
import type { Context } from '../native/context.ts';
import type { Model, Token } from '../native/model.ts';
import type { Sample } from './decoder.ts';
import type { Grammar } from './grammar.ts';
import { type Score, scoreOf } from './scores.ts';

export interface Step {
  token: Token;
  /** How likely it is by the model alone. Null: not requested. */
  score: Score | null;
}

export interface Sampling {
  temperature: number;
  seed: number;
  /** Absent: the defaults below. */
  options?: AnswerOptions;
  /** The grammar that the next token must follow. */
  grammar?: () => Grammar | undefined;
  /** Number of first tokens with their score. */
  judged: number;
  /** Each token with its score, and so many of the likeliest ones. Null: no scores. */
  explained: number | null;
}

/** Usual values of a chat model. */
const DEFAULTS = { topK: 40, topP: 0.95, minP: 0 };

/**
 * Samples the tokens of one run with the samplers of llama.cpp.
 *
 * 1. Each token has its own seed, and all else depends on the tokens of the answer. A resumed
 *    answer therefore continues identically.
 */
export class TokenSampler {
  private readonly model: Model;
  private readonly sampling: Sampling;
  private readonly c: Functions;
  private readonly chain: Pointer;
  /** What counts the tokens of the answer. */
  private readonly counting: Pointer[] = [];
  /** Makes the samplers that draw by chance at a position. None: the likeliest token is taken. */
  private readonly draw: (position: number) => readonly Pointer[];
  /** The samplers of the chain before those. */
  private fixed = 0;
  private drawn = 0;
  /** Tokens of the answer that were counted. */
  private counted = 0;
  private candidates: Float32Array | null = null;

  /** Throws invalid_request for a token that the model does not have. */
  constructor(model: Model, sampling: Sampling) {
    const { temperature, seed, options = {} } = sampling;
    [this.model, this.sampling, this.c] = [model, sampling, model.llama.c];
    const { c } = this;
    const biases = biasesOf(model, options);
    this.chain = c.llama_sampler_chain_init(c.llama_sampler_chain_default_params());
    if (biases !== null) this.add(biases);
    for (const sampler of countersOf(model, options)) this.counting.push(this.add(sampler));
    const narrowing =
      temperature > 0 ? narrowingOf(model, options) : [c.llama_sampler_init_greedy()];
    for (const sampler of narrowing) this.add(sampler);
    this.draw = (position) =>
      temperature > 0 ? drawingOf(c, options, temperature, seedAt(seed, position)) : [];
  }

  private add(sampler: Pointer): Pointer {
    this.c.llama_sampler_chain_add(this.chain, sampler);
    this.fixed += 1;
    return sampler;
  }

  /** The token after all that the answer has. Throws engine_failed if no token can follow. */
  after(answer: readonly Token[]): Sample<Step> {
    return (context, index) => {
      const { judged, explained, grammar } = this.sampling;
      this.count(answer);
      const state = grammar?.();
      const before = usedCpuMs();
      this.drawAt(answer.length);
      let token = this.c.llama_sampler_sample(this.chain, context.pointer, index);
      this.counted += 1;
      if (state !== undefined && !state.allows(token)) {
        this.recount(answer);
        token = this.sampleWithin(state, context, index);
      }
      if (state !== undefined) {
        state.note(token);
        boundForm(usedCpuMs() - before);
      }
      const wants = explained !== null || answer.length < judged;
      const score = wants ? scoreOf(context.logits(index), token, explained ?? 0) : null;
      return { token, score };
    };
  }

  dispose(): void {
    this.c.llama_sampler_free(this.chain);
  }

  /** Counts the tokens that an earlier attempt had. */
  private count(answer: readonly Token[]): void {
    if (this.counting.length === 0) return;
    for (; this.counted < answer.length; this.counted += 1)
      for (const sampler of this.counting)
        this.c.llama_sampler_accept(sampler, answer[this.counted] as Token);
  }

  /** Forgets the last token, which is not one of the answer. */
  private recount(answer: readonly Token[]): void {
    for (const sampler of this.counting) this.c.llama_sampler_reset(sampler);
    this.counted = 0;
    this.count(answer);
  }

  private drawAt(position: number): void {
    const { c, chain, fixed } = this;
    for (; this.drawn > 0; this.drawn -= 1)
      c.llama_sampler_free(c.llama_sampler_chain_remove(chain, fixed));
    const drawing = this.draw(position);
    for (const sampler of drawing) c.llama_sampler_chain_add(chain, sampler);
    this.drawn = drawing.length;
  }

  /** The grammar first: it looks at each token of the vocabulary. */
  private sampleWithin(state: Grammar, context: Context, index: number): Token {
    const { vocabulary } = this.model;
    this.candidates ??= new Float32Array(vocabulary * 3);
    const odds = this.candidates;
    const ids = new Int32Array(odds.buffer);
    const logits = context.logits(index);
    for (let token = 0; token < vocabulary; token += 1) {
      ids[token * 3] = token;
      odds[token * 3 + 1] = logits[token] as number;
      odds[token * 3 + 2] = 0;
    }
    const array = { data: koffi.address(odds), size: vocabulary, selected: -1, sorted: false };
    this.c.llama_sampler_apply(state.pointer, array);
    this.c.llama_sampler_apply(this.chain, array);
    const { selected, size } = array;
    const at = Number(selected);
    if (at < 0 || at >= Number(size) || odds[at * 3 + 1] === Number.NEGATIVE_INFINITY)
      throw new SvcError('engine_failed');
    const token = ids[at * 3] as Token;
    this.c.llama_sampler_accept(this.chain, token);
    this.counted += 1;
    return token;
  }
}

/** Tokens that stay, whatever a sampler removes. */
const LEAST = 1;

function topKOf({ vocabulary }: Model, { top_k: k = DEFAULTS.topK }: AnswerOptions): number {
  return k <= 0 ? vocabulary : Math.min(k, vocabulary);
}

/** What leaves fewer tokens to draw from, in the order of llama-server. */
function narrowingOf(model: Model, options: AnswerOptions): Pointer[] {
  const { c } = model.llama;
  const { top_n_sigma: sigma = 0, typical_p: typical = 1, min_p: minP = DEFAULTS.minP } = options;
  return [
    ...(sigma > 0 ? [c.llama_sampler_init_top_n_sigma(sigma)] : []),
    c.llama_sampler_init_top_k(topKOf(model, options)),
    ...(typical < 1 ? [c.llama_sampler_init_typical(typical, LEAST)] : []),
    c.llama_sampler_init_top_p(options.top_p ?? DEFAULTS.topP, LEAST),
    ...(minP > 0 ? [c.llama_sampler_init_min_p(minP, LEAST)] : []),
  ];
}

/** What draws one token. */
function drawingOf(
  c: Functions,
  options: AnswerOptions,
  temperature: number,
  seed: number,
): readonly Pointer[] {
  const { xtc_probability: xtc = 0, xtc_threshold: threshold = XTC_THRESHOLD } = options;
  const { dynatemp_range: range = 0, dynatemp_exponent: exponent = 1 } = options;
  return [
    ...(xtc > 0 ? [c.llama_sampler_init_xtc(xtc, threshold, LEAST, seed)] : []),
    c.llama_sampler_init_temp_ext(temperature, range, exponent),
    c.llama_sampler_init_dist(seed),
  ];
}

/** As llama.cpp has it by default. */
const XTC_THRESHOLD = 0.1;

/** What makes tokens that the answer has less likely. */
function countersOf(model: Model, options: AnswerOptions): Pointer[] {
  const { c } = model.llama;
  const { presence_penalty = 0, frequency_penalty = 0, repeat_penalty = 1 } = options;
  const counters: Pointer[] = [];
  if (presence_penalty !== 0 || frequency_penalty !== 0 || repeat_penalty !== 1)
    counters.push(
      c.llama_sampler_init_penalties(
        model.vocabulary,
        ALL,
        repeat_penalty,
        frequency_penalty,
        presence_penalty,
      ),
    );
  if (options.dry_multiplier)
    counters.push(
      c.llama_sampler_init_dry(
        model.vocab,
        options.dry_multiplier,
        DRY.base,
        DRY.allowed,
        ALL,
        DRY.breakers,
        DRY.breakers.length,
      ),
    );
  return counters;
}

/** More tokens than an answer has. */
const ALL = 1 << 20;
/** As llama.cpp has them by default: a repetition of two tokens does not count yet. */
const DRY = { base: 1.75, allowed: 2, breakers: ['\n', ':', '"', '*'] };

/** Null: none. Throws invalid_request for a token that the model does not have. */
function biasesOf(model: Model, { logit_bias = {} }: AnswerOptions): Pointer {
  const biases = Object.entries(logit_bias);
  if (biases.length === 0) return null;
  const { vocabulary } = model;
  const bytes = new DataView(new ArrayBuffer(biases.length * 8));
  for (const [at, [id, bias]] of biases.entries()) {
    if (Number(id) >= vocabulary)
      throw new SvcError('invalid_request', `The model has no token ${id}: it has ${vocabulary}.`, {
        param: 'logit_bias',
        hint: 'The ids are of the tokenizer of one model. Use those of the model that you ask.',
      });
    bytes.setInt32(at * 8, Number(id), true);
    bytes.setFloat32(at * 8 + 4, bias, true);
  }
  const { c } = model.llama;
  return c.llama_sampler_init_logit_bias(vocabulary, biases.length, new Uint8Array(bytes.buffer));
}

/**
 * Ends an answer whose form is so ambiguous that llama.cpp has more and more ways to continue. It
 * cannot be stopped within a token, and other runs wait for it.
 */
function boundForm(ms: number): void {
  if (ms <= FORM_MS) return;
  throw new SvcError(
    'capability_missing',
    'The form of the answer leaves too many ways to continue: one token took more than ' +
      `${FORM_MS / 1000} s of processor time.`,
    { param: 'response_format', hint: 'Use fewer values and forms that begin alike.' },
  );
}

/** Well within the time that a cancelled run has to stop. */
const FORM_MS = 4000;

/**
 * The seed of one token, from the seed of the run and the position. A resumed answer therefore
 * continues identically. Never returns the value that means "random" in llama.cpp.
 */
export function seedAt(seed: number, position: number): number {
  let mixed = (seed ^ Math.imul(position + 1, 0x9e3779b1)) >>> 0;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 1;
}
