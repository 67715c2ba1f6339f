import {
  type ArgumentsReader,
  argumentsReader,
  type CallRow,
  type Found,
  matchAt,
  type Pattern,
  type ThoughtRow,
  unquote,
  withoutControl,
} from '../../answer-forms/index.ts';
import type { CallName, Piece, Tool } from '../../contract/messages/parts.ts';

/** The parts that an answer may have, for one model and one request. */
export interface AnswerForm {
  /** The texts that end the answer, where they occur in its text. */
  readonly stop: readonly string[];
  /** Null: the model writes no reasoning, or in no known form. */
  readonly thoughts: ThoughtRow | null;
  /** The answer begins inside of reasoning. */
  readonly isReasoning: boolean;
  /** Null: the model may not call tools. */
  readonly calls: CallForm | null;
}

export interface CallForm {
  readonly rows: readonly CallRow[];
  readonly tools: readonly Tool[];
  /** False: a call ends the answer. */
  readonly several: boolean;
  /** The id of the call with this index. */
  id(index: number): string;
}

/** Why an answer has ended before the model ended it. */
export type Ended =
  | { readonly reason: 'stop'; readonly text: string }
  | { readonly reason: 'calls' };

/** A mark, and its meaning. */
type Meant = { readonly pattern: Pattern; act(found: Found): void };
type Place = { start: number; found: Found; act(found: Found): void };
type Mode = 'text' | 'reasoning' | 'arguments' | 'after_call';

/** Calls of one answer. What comes after them is text. */
const CALLS_MAX = 256;

/**
 * Reads the text of an answer as pieces: text, reasoning and tool calls.
 *
 * 1. The pieces depend on the text alone, not on how it is cut, so they can be read again.
 * 2. Text that may become part of a mark or a stop text is returned once it cannot.
 * 3. After the end of the answer nothing is returned.
 * 4. Arguments are returned as JSON, however the model writes them.
 */
export class Reader {
  private readonly form: AnswerForm;
  private readonly names: readonly string[];
  private mode: Mode;
  private ended_: Ended | null = null;
  private pending = '';
  /** Of each letter in `pending`: `1` for the text of a control token, which is never returned. */
  private control = '';
  private skipsSpace = false;
  private hasText = false;
  private hasThought = false;
  private calls = 0;
  private call: (CallName & { row: CallRow }) | null = null;
  private arguments: ArgumentsReader | null = null;
  private argumentsText = '';
  private pieces: Piece[] = [];
  private readonly inText: readonly Meant[];
  private readonly atStart: readonly Meant[];
  private readonly inReasoning: readonly Meant[];
  private readonly atThought: readonly Meant[];
  private readonly afterCall: readonly Meant[];

  constructor(form: AnswerForm) {
    this.form = form;
    const { stop, thoughts, calls, isReasoning } = form;
    const { reasoning = null, around = [], first = [] } = thoughts ?? {};
    const rows = calls?.rows ?? [];
    // Of two names that begin alike, the longer one is looked for first.
    this.names = (calls?.tools ?? []).map(({ name }) => name).sort((a, b) => b.length - a.length);
    const begins = (pattern: Pattern | undefined, row: CallRow): Meant[] =>
      pattern === undefined ? [] : [{ pattern, act: (found) => this.begin(found, row) }];
    const turns = (patterns: readonly Pattern[], to: 'text' | 'reasoning'): Meant[] =>
      patterns.map((pattern) => ({ pattern, act: () => this.turnTo(to) }));
    const drops = (patterns: readonly Pattern[]): Meant[] =>
      patterns.map((pattern) => ({ pattern, act: () => this.startSkipping() }));
    const open = reasoning === null ? [] : [reasoning.open];
    const close = reasoning?.close ?? [];
    const hasChannels = reasoning?.channels === true;
    const channels = [...turns(open, 'reasoning'), ...turns(close, 'text')];
    this.inText = [
      ...stop.map((text) => ({
        pattern: [{ exact: text }],
        act: () => this.finish({ reason: 'stop', text }),
      })),
      ...rows.flatMap((row) => begins(row.read.open, row)),
      ...(hasChannels ? channels : []),
      ...drops(around),
    ];
    this.atStart = [
      ...this.inText,
      ...rows.flatMap((row) => begins(row.read.first, row)),
      ...turns(open, 'reasoning'),
      // A model may close what it has not opened.
      ...turns(close, 'text'),
      ...drops(first),
    ];
    this.inReasoning = [
      ...rows.filter(({ read }) => read.inThoughts).flatMap((row) => begins(row.read.open, row)),
      ...(hasChannels ? [...channels, ...drops(around)] : turns(close, 'text')),
    ];
    // A model may open again what its prompt has opened.
    this.atThought = [...this.inReasoning, ...turns(open, 'reasoning')];
    this.afterCall = rows.flatMap((row) => [
      ...begins(row.read.next, row),
      ...row.read.close.map((pattern) => ({ pattern, act: () => {} })),
    ]);
    this.mode = isReasoning ? 'reasoning' : 'text';
    this.skipsSpace = isReasoning;
  }

  get ended(): Ended | null {
    return this.ended_;
  }

  /** Whether the answer has a tool call. */
  get hasCalls(): boolean {
    return this.calls > 0;
  }

  /** The tool whose arguments come next, and the form of its call. Null: none. */
  get argumentsOf(): { name: string; row: CallRow } | null {
    return this.mode === 'arguments' ? this.call : null;
  }

  /** The arguments of the answer so far, as the model writes them. */
  get argumentsSoFar(): string {
    return this.mode === 'arguments' ? this.argumentsText + this.pending : '';
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
    return this.takePieces();
  }

  /** Returns the text that was kept back: nothing follows. */
  end(): readonly Piece[] {
    if (this.ended_ !== null) return NONE;
    if (this.mode === 'text' || this.mode === 'reasoning') this.release(this.callBegun());
    this.pending = '';
    this.control = '';
    return this.takePieces();
  }

  /** Where a call begins that is cut off before its arguments. */
  private callBegun(): number {
    const { pending, names } = this;
    const rows = this.mode === 'text' ? (this.form.calls?.rows ?? []) : [];
    for (let at = 0; at < pending.length; at += 1)
      for (const { read } of rows)
        if (
          read.mark !== undefined &&
          typeof matchAt(read.mark, pending, at) === 'object' &&
          matchAt(read.open, pending, at, names) === 'partial'
        )
          return at;
    return pending.length;
  }

  /** Whether nothing but text can occur. */
  private get isPlain(): boolean {
    const { stop, thoughts, calls } = this.form;
    return stop.length === 0 && thoughts === null && calls === null;
  }

  private takePieces(): readonly Piece[] {
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
    let place: Place | null = null;
    let kept = this.pending.length;
    let isFirst = true;
    for (let start = 0; start < this.pending.length; start += 1) {
      if (place !== null && start >= place.found.end) break;
      for (const { pattern, act } of isFirst ? first : marks) {
        const found = matchAt(pattern, this.pending, start, this.names);
        if (found === 'partial') kept = Math.min(kept, start);
        else if (found !== 'none' && (place === null || found.end < place.found.end))
          place = { start, found, act };
      }
      isFirst &&= /\s/.test(this.pending[start] as string);
    }
    this.release(place === null ? kept : place.start);
    if (place === null) return false;
    this.drop(place.found.end - place.start);
    place.act(place.found);
    return true;
  }

  private readArguments(): boolean {
    const { call } = this;
    if (call === null || this.arguments === null) return false;
    const { read, json, isOver } = this.arguments.push(this.pending, this.control);
    this.argumentsText += this.pending.slice(0, read);
    this.drop(read);
    this.say(json);
    if (isOver) this.endCall();
    return isOver;
  }

  private endCall(): void {
    this.call = null;
    this.arguments = null;
    if (this.form.calls?.several !== true) this.finish({ reason: 'calls' });
    else this.mode = 'after_call';
  }

  private readAfterCall(): boolean {
    let longest: Place | null = null;
    for (const { pattern, act } of this.calls < CALLS_MAX ? this.afterCall : []) {
      const found = matchAt(pattern, this.pending, 0, this.names);
      if (found === 'partial') return false;
      if (found !== 'none' && found.end > (longest?.found.end ?? 0))
        longest = { start: 0, found, act };
    }
    if (longest === null) {
      this.turnTo('text');
      return true;
    }
    this.drop(longest.found.end);
    longest.act(longest.found);
    return true;
  }

  private begin({ name, earlyArguments }: Found, row: CallRow): void {
    const tool = this.form.calls?.tools.find((each) => each.name === name);
    if (tool === undefined) return;
    this.call = { id: this.form.calls?.id(this.calls) ?? '', name: tool.name, row };
    this.calls += 1;
    this.argumentsText = '';
    this.mode = 'arguments';
    this.say('', true);
    if (earlyArguments === undefined) this.arguments = argumentsReader(row.syntax, tool.parameters);
    else {
      this.say(unquote(earlyArguments));
      this.endCall();
    }
  }

  private say(text: string, begins = false): void {
    if (this.call === null || (text === '' && !begins)) return;
    const { id, name } = this.call;
    this.pieces.push({ kind: 'tool_call', call: { id, name }, text });
  }

  private turnTo(mode: 'text' | 'reasoning'): void {
    this.mode = mode;
    this.skipsSpace = true;
  }

  /** The white space beside such a mark is not part of the text. */
  private startSkipping(): void {
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
    return withoutControl(letters, control);
  }

  private drop(length: number): void {
    this.pending = this.pending.slice(length);
    this.control = this.control.slice(length);
  }
}

const NONE: readonly Piece[] = [];
