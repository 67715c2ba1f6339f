import koffi from 'koffi';
import type { Functions, Pointer } from '../native/abi.ts';
import type { Model, Token } from '../native/model.ts';

/** A token may be a byte of a letter. */
const LETTER_BYTES = 4;
/** Tokens before, by which the spelling of the next one depends on them. */
const BEFORE = 4;

/** A grammar, and how far an answer has come in it. */
export class Grammar {
  readonly pointer: Pointer;
  private readonly model: Model;
  private readonly c: Functions;
  private readonly one = new DataView(new ArrayBuffer(12));
  private readonly onText: ((text: string) => void) | undefined;
  private readonly noted: Token[] = [];
  /** Tokens of a letter whose bytes are not all there. */
  private waiting: Token[] = [];
  private isDisposed = false;

  /**
   * Throws Error for a grammar that llama.cpp refuses. `onText` gets the text that each token adds.
   */
  constructor(model: Model, text: string, onText?: (text: string) => void) {
    [this.model, this.c] = [model, model.llama.c];
    this.onText = onText;
    this.pointer = this.c.llama_sampler_init_grammar(model.vocab, text, 'root');
    if (this.pointer === null) throw new Error('llama.cpp refuses the grammar');
  }

  /** Whether this token can be next. */
  allows(token: Token): boolean {
    const { one } = this;
    one.setInt32(0, token, true);
    one.setFloat32(4, 1, true);
    one.setFloat32(8, 0, true);
    const bytes = new Uint8Array(one.buffer);
    const array = { data: koffi.address(bytes), size: 1, selected: -1, sorted: false };
    this.c.llama_sampler_apply(this.pointer, array);
    return one.getFloat32(4, true) !== Number.NEGATIVE_INFINITY;
  }

  /** Notes the next token. False: it cannot be next, which would end the process. */
  accept(token: Token): boolean {
    if (!this.allows(token)) return false;
    this.note(token);
    return true;
  }

  /** Notes an allowed token. The end of the answer changes nothing. */
  note(token: Token): void {
    if (this.model.isEogToken(token)) return;
    this.c.llama_sampler_accept(this.pointer, token);
    if (this.onText === undefined) return;
    this.waiting.push(token);
    const text = this.model.detokenize(this.waiting, false, this.noted.slice(-BEFORE));
    if (text.endsWith('\uFFFD') && this.waiting.length < LETTER_BYTES) return;
    this.noted.push(...this.waiting);
    this.waiting = [];
    this.onText(text);
  }

  dispose(): void {
    if (this.isDisposed) return;
    this.isDisposed = true;
    this.c.llama_sampler_free(this.pointer);
  }
}
