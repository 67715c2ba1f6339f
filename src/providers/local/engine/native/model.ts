import type { Functions, Pointer } from './abi.ts';
import type { LoadedAdapters } from './adapters.ts';
import { Context, type ContextOptions } from './context.ts';
import type { Header } from './header.ts';
import { heard, type Llama } from './library.ts';

/** A token of the vocabulary, by its number. */
export type Token = number;

/** A token that is no normal text. Its type is that of the file. */
export interface SpecialToken {
  text: string;
  type: number;
}

export interface Tokens {
  bos: Token | null;
  eos: Token | null;
  sep: Token | null;
  /** For a text between two others. */
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
  readonly header: Header;
  readonly pointer: Pointer;
  readonly vocab: Pointer;
  readonly tokens: Tokens;
  readonly vocabulary: number;
  /** Tokens of a context that it was trained with. */
  readonly trainContextSize: number;
  /** Its layers on a graphics card. */
  readonly gpuLayers: number;
  /** Tokens that are no normal text, by number. */
  readonly special: ReadonlyMap<Token, SpecialToken>;
  private readonly c: Functions;
  private readonly ends = new Map<Token, boolean>();
  private longest: number | null = null;

  /** What is added to its weights. */
  adapters: LoadedAdapters = { pointers: [], scales: [] };

  constructor(llama: Llama, pointer: Pointer, header: Header, gpuLayers: number) {
    const { c } = llama;
    [this.llama, this.c, this.pointer, this.header] = [llama, c, pointer, header];
    this.gpuLayers = gpuLayers;
    this.vocab = c.llama_model_get_vocab(pointer);
    this.vocabulary = c.llama_vocab_n_tokens(this.vocab);
    // The file has 32 bits without a sign.
    this.trainContextSize = c.llama_model_n_ctx_train(pointer) >>> 0;
    this.tokens = tokensOf(c, this.vocab);
    const special = new Map<Token, SpecialToken>();
    for (const [token, type] of header.tokenTypes.entries())
      if (SPECIAL.has(type) && token < this.vocabulary)
        special.set(token, { text: this.textOf(token), type });
    this.special = special;
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
   * The tokens of a text. `special`: control tokens that it spells are those tokens. `behind`: the
   * text is behind another one, so a tokenizer adds no space before it.
   */
  tokenize(text: string, special = false, behind = false): Token[] {
    if (text === '') return [];
    return (behind ? this.tokensBehind(text, special) : null) ?? this.tokensIn(text, special);
  }

  /**
   * The tokens behind a mark that no space follows. Null: the vocabulary has no such mark. A mark
   * that stays apart is the token of a control token, or a line break.
   */
  private tokensBehind(text: string, special: boolean): Token[] | null {
    const { bos, eos } = this.tokens;
    const mark = bos ?? eos;
    if (special && mark !== null) {
      const tokens = this.tokensIn(this.textOf(mark) + text, true);
      const at = tokens.indexOf(mark);
      const rest = tokens.slice(at + 1);
      if ((at === 0 || at === 1) && spacesOf(this.detokenize(rest, true)) === spacesOf(text))
        return rest;
    }
    if (text.startsWith('\n')) {
      const tokens = this.tokensIn(text, special);
      if (this.detokenize(tokens, special).startsWith('\n')) return tokens;
    }
    const marks = this.tokensIn('\n', special);
    const tokens = this.tokensIn(`\n${text}`, special);
    if (marks.length === 0 || marks.some((token, at) => tokens[at] !== token)) return null;
    const rest = tokens.slice(marks.length);
    return !special || spacesOf(this.detokenize(rest, true)) === spacesOf(text) ? rest : null;
  }

  /** The tokens of a text alone, with those that the model expects around it. */
  tokenizeWhole(text: string): Token[] {
    return this.tokensIn(text, false, true);
  }

  private tokensIn(text: string, special: boolean, adds = false): Token[] {
    const bytes = Buffer.from(text);
    let tokens = new Int32Array(bytes.length + 8);
    const read = () =>
      this.c.llama_tokenize(this.vocab, bytes, bytes.length, tokens, tokens.length, adds, special);
    let count = read();
    if (count < 0) {
      tokens = new Int32Array(-count);
      count = read();
    }
    return [...tokens.subarray(0, Math.max(0, count))];
  }

  /** The text of tokens. `special`: control tokens are spelled. `before`: those of earlier text. */
  detokenize(tokens: readonly Token[], special = false, before: readonly Token[] = []): string {
    if (tokens.length === 0) return '';
    if (before.length > 0) {
      const earlier = this.textIn(before, special);
      const all = earlier === '' ? '' : this.textIn([...before, ...tokens], special);
      if (all !== '' && all.startsWith(earlier)) return all.slice(earlier.length);
    }
    return this.textIn(tokens, special);
  }

  private textIn(tokens: readonly Token[], special: boolean): string {
    const ids = Int32Array.from(tokens);
    let bytes = new Uint8Array(16 * tokens.length + 16);
    const read = () =>
      this.c.llama_detokenize(this.vocab, ids, ids.length, bytes, bytes.length, false, special);
    let length = read();
    if (length < 0) {
      bytes = new Uint8Array(-length);
      length = read();
    }
    return utf8.decode(bytes.subarray(0, Math.max(0, length)));
  }

  /** Throws Error if llama.cpp makes none. */
  createContext(options: ContextOptions): Context {
    return heard(this.llama, () => new Context(this, options));
  }
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
