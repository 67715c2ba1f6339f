import type { GgufHeader } from '../../models/index.ts';
import { RANKER } from '../inspect/inspection.ts';
import type { Functions, Pointer } from './abi.ts';
import type { LoadedAdapters } from './adapters.ts';
import { Context, type ContextOptions } from './context.ts';
import { type Llama, withLogging } from './library.ts';

/** A token of the vocabulary, by its number. */
export type Token = number;

/** A token that is not normal text. Its type is that of the file. */
export interface SpecialToken {
  text: string;
  type: number;
}

export interface Tokens {
  bos: Token | null;
  eos: Token | null;
  sep: Token | null;
  /** To fill in the middle of a text: marks of its parts, and of other files before it. */
  infill: Readonly<Record<'prefix' | 'suffix' | 'middle' | 'repository' | 'file', Token | null>>;
  /** Whether a prompt begins with `bos`. */
  addsBos: boolean;
}

/** Types of tokens in a model file. */
export const UNKNOWN = 2;
export const CONTROL = 3;
export const USER_DEFINED = 4;
const SPECIAL: ReadonlySet<number> = new Set([UNKNOWN, CONTROL, USER_DEFINED]);

const utf8 = new TextDecoder();

/** A model in memory. */
export class Model {
  readonly llama: Llama;
  /** The metadata of its file, without lists. */
  readonly metadata: ReadonlyMap<string, unknown>;
  readonly architecture: string;
  /** Names of the weights in its file. */
  readonly weights: readonly string[];
  readonly pointer: Pointer;
  readonly vocab: Pointer;
  readonly tokens: Tokens;
  readonly vocabulary: number;
  /** Tokens of a context that it was trained with. */
  readonly trainContextSize: number;
  /** Its layers on a graphics card. */
  readonly gpuLayers: number;
  /** Tokens that are not normal text, by number. */
  readonly special: ReadonlyMap<Token, SpecialToken>;
  private readonly c: Functions;
  private readonly ends = new Map<Token, boolean>();
  private longest: number | null = null;

  /** The adapters that are added to its weights. */
  adapters: LoadedAdapters = { pointers: [], scales: [] };

  constructor(llama: Llama, pointer: Pointer, header: GgufHeader, gpuLayers: number) {
    const { c } = llama;
    const { architecture, entries, tensors } = header;
    [this.llama, this.c, this.pointer, this.architecture] = [llama, c, pointer, architecture];
    const single = entries.keys.filter((key) => entries.count(key) === null);
    this.metadata = new Map(single.map((key) => [key, entries.value(key)]));
    this.weights = tensors.map(({ name }) => name);
    this.gpuLayers = gpuLayers;
    this.vocab = c.llama_model_get_vocab(pointer);
    this.vocabulary = c.llama_vocab_n_tokens(this.vocab);
    // The file has 32 bits without a sign.
    this.trainContextSize = c.llama_model_n_ctx_train(pointer) >>> 0;
    this.tokens = tokensOf(c, this.vocab);
    const special = new Map<Token, SpecialToken>();
    const types = (entries.value('tokenizer.ggml.token_type') ?? []) as number[];
    for (const [token, type] of types.entries())
      if (SPECIAL.has(type) && token < this.vocabulary)
        special.set(token, { text: this.textOf(token), type });
    this.special = special;
  }

  /** Its file has the weights that make a score. */
  get isRanker(): boolean {
    return this.weights.some((name) => RANKER.test(name));
  }

  /** A number of its architecture. Null: its file does not say, or it has one for each layer. */
  numberOf(key: string): number | null {
    const value = this.metadata.get(`${this.architecture}.${key}`);
    return typeof value === 'number' ? value : null;
  }

  /** Whether it has an encoder and a decoder, and so on. */
  get kind() {
    const { c, pointer } = this;
    return {
      hasEncoder: c.llama_model_has_encoder(pointer),
      hasDecoder: c.llama_model_has_decoder(pointer),
      isRecurrent: c.llama_model_is_recurrent(pointer),
      isHybrid: c.llama_model_is_hybrid(pointer),
    };
  }

  /** Of its weights. */
  get bytes(): number {
    return Number(this.c.llama_model_size(this.pointer));
  }

  /** Numbers of the vector of a text. */
  get vectorLength(): number {
    return this.c.llama_model_n_embd_out(this.pointer);
  }

  /** Most bytes of a token. Reads the whole vocabulary at first. */
  get tokenBytesMax(): number {
    if (this.longest === null) {
      this.longest = 4;
      for (let token = 0; token < this.vocabulary; token += 1)
        this.longest = Math.max(this.longest, Buffer.byteLength(this.textOf(token)));
    }
    return this.longest;
  }

  /** How the file spells a token. */
  textOf(token: Token): string {
    return this.c.llama_vocab_get_text(this.vocab, token);
  }

  /** Whether a text is one token. */
  hasToken(text: string): boolean {
    return this.tokenize(text, true).some((token) => this.textOf(token) === text);
  }

  isEogToken(token: Token): boolean {
    const known = this.ends.get(token);
    if (known !== undefined) return known;
    const ends = this.c.llama_vocab_is_eog(this.vocab, token);
    this.ends.set(token, ends);
    return ends;
  }

  isControl(token: Token): boolean {
    return this.c.llama_vocab_is_control(this.vocab, token) || this.isEogToken(token);
  }

  /**
   * The tokens of a text. `spellsControl`: control tokens that it spells are those tokens.
   * `isBehind`: the text is behind another one, so a tokenizer adds no space before it.
   */
  tokenize(text: string, spellsControl = false, isBehind = false): Token[] {
    if (text === '') return [];
    return (
      (isBehind ? this.tokensBehind(text, spellsControl) : null) ??
      this.tokensIn(text, spellsControl)
    );
  }

  /**
   * The tokens behind a mark that no space follows. Null: the vocabulary has no such mark. A mark
   * that stays apart is the token of a control token, or a line break.
   */
  private tokensBehind(text: string, spellsControl: boolean): Token[] | null {
    const { bos, eos } = this.tokens;
    const mark = bos ?? eos;
    if (spellsControl && mark !== null) {
      const tokens = this.tokensIn(this.textOf(mark) + text, true);
      const at = tokens.indexOf(mark);
      const rest = tokens.slice(at + 1);
      if ((at === 0 || at === 1) && spacesOf(this.detokenize(rest, true)) === spacesOf(text))
        return rest;
    }
    if (text.startsWith('\n')) {
      const tokens = this.tokensIn(text, spellsControl);
      if (this.detokenize(tokens, spellsControl).startsWith('\n')) return tokens;
    }
    const marks = this.tokensIn('\n', spellsControl);
    const tokens = this.tokensIn(`\n${text}`, spellsControl);
    if (marks.length === 0 || marks.some((token, at) => tokens[at] !== token)) return null;
    const rest = tokens.slice(marks.length);
    return !spellsControl || spacesOf(this.detokenize(rest, true)) === spacesOf(text) ? rest : null;
  }

  /** The tokens of a text alone, with those that the model expects around it. */
  tokenizeWhole(text: string): Token[] {
    return this.tokensIn(text, false, true);
  }

  private tokensIn(text: string, spellsControl: boolean, addsEnds = false): Token[] {
    const bytes = Buffer.from(text);
    const { c, vocab } = this;
    const read = (into: Int32Array) =>
      c.llama_tokenize(vocab, bytes, bytes.length, into, into.length, addsEnds, spellsControl);
    return [...fillArray(new Int32Array(bytes.length + 8), read)];
  }

  /** The text of tokens. `spellsControl`: control tokens too. `before`: tokens of earlier text. */
  detokenize(
    tokens: readonly Token[],
    spellsControl = false,
    before: readonly Token[] = [],
  ): string {
    if (tokens.length === 0) return '';
    if (before.length > 0) {
      const earlier = this.textIn(before, spellsControl);
      const all = earlier === '' ? '' : this.textIn([...before, ...tokens], spellsControl);
      if (all !== '' && all.startsWith(earlier)) return all.slice(earlier.length);
    }
    return this.textIn(tokens, spellsControl);
  }

  private textIn(tokens: readonly Token[], spellsControl: boolean): string {
    const ids = Int32Array.from(tokens);
    const { c, vocab } = this;
    const read = (into: Uint8Array) =>
      c.llama_detokenize(vocab, ids, ids.length, into, into.length, false, spellsControl);
    return utf8.decode(fillArray(new Uint8Array(16 * tokens.length + 16), read));
  }

  /** The bytes of a token, which need not be whole letters. */
  bytesOf(token: Token): number[] {
    const { c, vocab } = this;
    const read = (into: Uint8Array) =>
      c.llama_token_to_piece(vocab, token, into, into.length, 0, true);
    return [...fillArray(new Uint8Array(16), read)];
  }

  /** Throws Error if llama.cpp makes none. */
  createContext(options: ContextOptions): Context {
    return withLogging(this.llama, () => new Context(this, options));
  }
}

/**
 * The content that a function writes into an array. If the array is too small, the function returns
 * the needed size below 0.
 */
function fillArray<A extends Int32Array | Uint8Array>(array: A, read: (into: A) => number): A {
  const count = read(array);
  if (count >= 0) return array.subarray(0, count) as A;
  const larger = new (array.constructor as new (length: number) => A)(-count);
  return larger.subarray(0, Math.max(0, read(larger))) as A;
}

function spacesOf(text: string): number {
  return text.length - text.replace(/^ +/, '').length;
}

function tokensOf(c: Functions, vocab: Pointer): Tokens {
  const known = (token: number) => (token < 0 ? null : token);
  return {
    bos: known(c.llama_vocab_bos(vocab)),
    eos: known(c.llama_vocab_eos(vocab)),
    sep: known(c.llama_vocab_sep(vocab)),
    infill: {
      prefix: known(c.llama_vocab_fim_pre(vocab)),
      suffix: known(c.llama_vocab_fim_suf(vocab)),
      middle: known(c.llama_vocab_fim_mid(vocab)),
      repository: known(c.llama_vocab_fim_rep(vocab)),
      file: known(c.llama_vocab_fim_sep(vocab)),
    },
    addsBos: c.llama_vocab_get_add_bos(vocab),
  };
}
