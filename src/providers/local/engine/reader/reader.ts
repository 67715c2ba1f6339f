import type { CallName, Piece } from '../../../../../machines/messages.ts';
import { type Mark, matchAt } from './mark.ts';

/** What the text of an answer may consist of, for one model and one request. */
export interface AnswerForm {
  /** The texts that end the answer, where they occur in its text. */
  readonly stop: readonly { readonly text: string; readonly mark: Mark }[];
  /** Null: the model writes no reasoning, or in no known form. */
  readonly reasoning: {
    readonly open: Mark | null;
    readonly close: Mark;
    /** What an answer without reasoning begins with, which is no text of it. */
    readonly none?: Mark | null;
    /** The answer begins inside of reasoning. */
    readonly atStart: boolean;
  } | null;
  /** Null: the model may not call tools. */
  readonly calls: CallForm | null;
}

export interface CallForm {
  /** The beginnings of a call up to its arguments, each with the name of its tool. */
  readonly open: readonly { readonly name: string; readonly mark: Mark }[];
  /** The beginnings of another call after one. Empty: a call ends the answer. */
  readonly next: readonly { readonly name: string; readonly mark: Mark }[];
  /** Texts between calls, and after the last one. They are no text of the answer. */
  readonly close: readonly Mark[];
  /** The id of the call with this index. */
  id(index: number): string;
}

/** Why an answer has ended before the model ended it. */
export type Ended =
  | { readonly reason: 'stop'; readonly text: string }
  | { readonly reason: 'calls' };

/** A mark, and what it means. */
type Meant = { readonly mark: Mark; act(): void };
type Found = { start: number; end: number; act(): void };
type Mode = 'text' | 'reasoning' | 'arguments' | 'after_call';

/**
 * Reads the text of an answer as pieces: text, reasoning and tool calls.
 *
 * 1. The pieces depend on the text alone, not on how it is cut, so they can be read again.
 * 2. Text that may become part of a mark or a stop text is returned once it cannot.
 * 3. After the end of the answer nothing is returned.
 */
export class Reader {
  private readonly form: AnswerForm;
  private mode: Mode;
  private ended_: Ended | null = null;
  private pending = '';
  /** Of each letter in `pending`: `1` for the text of a control token, which is never returned. */
  private control = '';
  private skipsSpace = false;
  private hasText = false;
  private hasThought = false;
  private calls = 0;
  private call: CallName | null = null;
  private json = new JsonEnd();
  private argumentsText = '';
  private pieces: Piece[] = [];
  private readonly inText: readonly Meant[];
  private readonly atStart: readonly Meant[];
  private readonly inReasoning: readonly Meant[];
  private readonly atThought: readonly Meant[];
  private readonly afterCall: readonly Meant[];

  constructor(form: AnswerForm) {
    this.form = form;
    const { stop, reasoning, calls } = form;
    const begins = ({ name, mark }: CallForm['open'][number]) => ({
      mark,
      act: () => this.begin(name),
    });
    const turns = (mark: Mark | null | undefined, to: 'text' | 'reasoning') =>
      mark == null ? [] : [{ mark, act: () => this.turnTo(to) }];
    this.inText = [
      ...stop.map(({ text, mark }) => ({ mark, act: () => this.finish({ reason: 'stop', text }) })),
      ...(calls?.open ?? []).map(begins),
    ];
    this.atStart = [
      ...this.inText,
      ...turns(reasoning?.open, 'reasoning'),
      ...turns(reasoning?.none, 'text'),
    ];
    this.inReasoning = turns(reasoning?.close, 'text');
    // A model may open again what its prompt has opened.
    this.atThought = [...this.inReasoning, ...turns(reasoning?.open, 'reasoning')];
    this.afterCall = [
      ...(calls?.next ?? []).map(begins),
      ...(calls?.close ?? []).map((mark) => ({ mark, act: () => {} })),
    ];
    this.mode = form.reasoning?.atStart === true ? 'reasoning' : 'text';
    this.skipsSpace = this.mode === 'reasoning';
  }

  /** Whether a text of the answer can end it. */
  get mayEnd(): boolean {
    return this.form.stop.length > 0 || this.form.calls !== null;
  }

  get ended(): Ended | null {
    return this.ended_;
  }

  /** Whether the answer has a tool call. */
  get hasCalls(): boolean {
    return this.calls > 0;
  }

  /** The tool whose arguments come next. Null: none. */
  get argumentsOf(): string | null {
    return this.mode === 'arguments' ? (this.call?.name ?? null) : null;
  }

  /** What the answer has of these arguments. */
  get argumentsSoFar(): string {
    return this.mode === 'arguments' ? this.argumentsText : '';
  }

  get isReasoning(): boolean {
    return this.mode === 'reasoning';
  }

  /** `isControl`: the text of a control token. */
  push(text: string, isControl = false): readonly Piece[] {
    if (text === '' || this.ended_ !== null) return NONE;
    if (this.isPlain) return isControl ? NONE : [{ text }];
    this.pending += text;
    this.control += (isControl ? '1' : '0').repeat(text.length);
    while (this.ended_ === null && this.read());
    return this.taken();
  }

  /** Returns what was kept back: nothing follows. */
  end(): readonly Piece[] {
    if (this.ended_ !== null) return NONE;
    if (this.mode === 'text' || this.mode === 'reasoning') this.release(this.pending.length);
    this.pending = '';
    this.control = '';
    return this.taken();
  }

  /** Whether nothing but text can occur. */
  private get isPlain(): boolean {
    const { stop, reasoning, calls } = this.form;
    return stop.length === 0 && reasoning === null && calls === null;
  }

  private taken(): readonly Piece[] {
    if (this.pieces.length === 0) return NONE;
    const { pieces } = this;
    this.pieces = [];
    return pieces;
  }

  /** Reads to the next mark. False: more text is needed. */
  private read(): boolean {
    if (this.pending === '') return false;
    switch (this.mode) {
      case 'text':
        return this.scan(this.inText, this.hasText ? this.inText : this.atStart);
      case 'reasoning':
        return this.scan(this.inReasoning, this.hasThought ? this.inReasoning : this.atThought);
      case 'arguments':
        return this.readArguments();
      default:
        return this.readAfterCall();
    }
  }

  /**
   * Returns text up to the mark that ends first, and acts on it. `first`: the marks before any
   * text.
   */
  private scan(marks: readonly Meant[], first: readonly Meant[]): boolean {
    this.skipSpace();
    let found: Found | null = null;
    let kept = this.pending.length;
    let isFirst = true;
    for (let start = 0; start < this.pending.length; start += 1) {
      if (found !== null && start >= found.end) break;
      for (const { mark, act } of isFirst ? first : marks) {
        const end = matchAt(mark, this.pending, start);
        if (end === 'partial') kept = Math.min(kept, start);
        else if (end !== 'none' && (found === null || end < found.end)) found = { start, end, act };
      }
      isFirst &&= /\s/.test(this.pending[start] as string);
    }
    this.release(found === null ? kept : found.start);
    if (found === null) return false;
    this.drop(found.end - found.start);
    found.act();
    return true;
  }

  private readArguments(): boolean {
    const { call, json } = this;
    if (call === null) return false;
    const hadBegun = json.hasBegun;
    const end = json.push(this.pending);
    const text = this.cut(end ?? this.pending.length);
    const shown = hadBegun ? text : text.trimStart();
    this.argumentsText += shown;
    if (end !== null && !json.hasBegun) this.pieces.push({ kind: 'tool_call', call, text: '{}' });
    else if (shown !== '') this.pieces.push({ kind: 'tool_call', call, text: shown });
    if (end === null) return false;
    this.call = null;
    if (this.form.calls?.next.length === 0) this.finish({ reason: 'calls' });
    else this.mode = 'after_call';
    return true;
  }

  private readAfterCall(): boolean {
    let longest: Found | null = null;
    for (const { mark, act } of this.afterCall) {
      const end = matchAt(mark, this.pending, 0);
      if (end === 'partial') return false;
      if (end !== 'none' && end > (longest?.end ?? 0)) longest = { start: 0, end, act };
    }
    if (longest === null) {
      this.turnTo('text');
      return true;
    }
    this.drop(longest.end);
    longest.act();
    return true;
  }

  private begin(name: string): void {
    this.call = { id: this.form.calls?.id(this.calls) ?? '', name };
    this.calls += 1;
    this.json = new JsonEnd();
    this.argumentsText = '';
    this.mode = 'arguments';
    this.pieces.push({ kind: 'tool_call', call: this.call, text: '' });
  }

  private turnTo(mode: 'text' | 'reasoning'): void {
    this.mode = mode;
    this.skipsSpace = true;
  }

  private finish(ended: Ended): void {
    this.ended_ = ended;
    this.pending = '';
    this.control = '';
  }

  private skipSpace(): void {
    if (!this.skipsSpace) return;
    this.drop(this.pending.length - this.pending.trimStart().length);
    this.skipsSpace = this.pending === '';
  }

  /** Returns letters of the present part. */
  private release(length: number): void {
    const text = this.cut(length);
    if (text === '') return;
    if (this.mode === 'reasoning') {
      this.hasThought ||= text.trim() !== '';
      this.pieces.push({ text, kind: 'reasoning' });
    } else {
      this.hasText ||= text.trim() !== '';
      this.pieces.push({ text });
    }
  }

  /** Removes letters. Returns those that are not of control tokens. */
  private cut(length: number): string {
    const letters = this.pending.slice(0, length);
    const control = this.control.slice(0, length);
    this.drop(length);
    if (!control.includes('1')) return letters;
    return Array.from(control, (is, at) => (is === '1' ? '' : letters[at])).join('');
  }

  private drop(length: number): void {
    this.pending = this.pending.slice(length);
    this.control = this.control.slice(length);
  }
}

const NONE: readonly Piece[] = [];

/**
 * Finds the end of one JSON value in a text that arrives in pieces. It checks no syntax: what a
 * model writes may be invalid.
 */
class JsonEnd {
  private depth = 0;
  private inside: 'nothing' | 'string' | 'escape' | 'word' | 'value' = 'nothing';

  /** Whether the value has begun. */
  get hasBegun(): boolean {
    return this.inside !== 'nothing';
  }

  /** The index after the value. Null: it goes on after this piece. */
  push(text: string): number | null {
    for (let at = 0; at < text.length; at += 1) {
      const end = this.step(text[at] as string, at);
      if (end !== null) return end;
    }
    return null;
  }

  private step(letter: string, at: number): number | null {
    switch (this.inside) {
      case 'escape':
        this.inside = 'string';
        return null;
      case 'string':
        if (letter === '\\') this.inside = 'escape';
        if (letter !== '"') return null;
        this.inside = 'value';
        return this.depth === 0 ? at + 1 : null;
      case 'word':
        if (/[\w.+-]/.test(letter)) return null;
        return at;
      default:
        return this.stepOutside(letter, at);
    }
  }

  private stepOutside(letter: string, at: number): number | null {
    if (/\s/.test(letter)) return null;
    if (letter === '"') this.inside = 'string';
    else if (letter === '{' || letter === '[') {
      this.depth += 1;
      this.inside = 'value';
    } else if (this.depth === 0) {
      if (!/[\w.+-]/.test(letter)) return at;
      this.inside = 'word';
    } else if (letter === '}' || letter === ']') {
      this.depth -= 1;
      return this.depth === 0 ? at + 1 : null;
    }
    return null;
  }
}
