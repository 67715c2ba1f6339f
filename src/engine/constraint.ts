import {
  argumentsGrammar,
  type CallRow,
  countWays,
  headRule,
  isNote,
  literal,
  type TextForm,
  takeText,
  textGrammar,
} from '../answer-forms/index.ts';
import type { Tool } from '../contract/messages/parts.ts';
import { SvcError } from '../errors.ts';
import { Grammar } from './decode/grammar.ts';
import type { LoadedModel } from './load.ts';
import type { Token } from './native/model.ts';
import type { AnswerPieces } from './reader/answer.ts';
import type { Reader } from './reader/reader.ts';

/** What an answer must consist of. */
export interface Required {
  /** The form of its text. `none`: it must be a call. */
  text: TextForm | 'free' | 'none';
  /** How a call is written that it may consist of instead. Null: it has none. */
  row: CallRow | null;
  tools: readonly Tool[];
}

/** How long a model may reason. */
export interface ThoughtBound {
  tokens: number;
  /** The text that ends its reasoning. */
  close: string;
}

/**
 * The grammar that the next token must follow. It depends on the answer so far alone, so it is the
 * same after a resume.
 *
 * 1. Reasoning is free up to its bound, and to the end of a letter. Then its end is forced.
 * 2. The text after it has one grammar, the arguments of each call another one.
 * 3. A grammar ends with its text or arguments. Then the model can only end.
 */
export class Constraint {
  private readonly loaded: LoadedModel;
  private readonly required: Required | null;
  private readonly thoughts: ThoughtBound | null;
  private readonly answer: Pick<AnswerPieces, 'reader' | 'isWhole'>;
  private readonly reader: Reader;
  /** Tokens of reasoning so far. */
  private thought = 0;
  private phase: string | null = null;
  /** Whether the grammar says all of the form of the text. Null: no text was written by it. */
  private saysAll: boolean | null = null;
  private present: Grammar | undefined;

  constructor(
    loaded: LoadedModel,
    { required, thoughts }: { required: Required | null; thoughts: ThoughtBound | null },
    answer: Pick<AnswerPieces, 'reader' | 'isWhole'>,
  ) {
    this.loaded = loaded;
    this.required = required;
    this.thoughts = thoughts;
    this.answer = answer;
    this.reader = answer.reader;
    this.change();
  }

  /** Whether a whole text has the requested form. */
  get keepsForm(): boolean {
    return this.saysAll === true;
  }

  /** Undefined: the next token is free. */
  get state(): Grammar | undefined {
    return this.present;
  }

  /** Notes a token of an earlier attempt. Throws resume_failed for a token that cannot be next. */
  accept(token: Token): void {
    if (this.present?.accept(token) !== false) return;
    // An earlier version ended reasoning with other tokens, or inside of a letter.
    if (this.phase !== END_OF_REASONING) throw new SvcError('resume_failed');
    this.dispose();
  }

  /** Frees the grammar. The next token is free. */
  dispose(): void {
    this.present?.dispose();
    this.present = undefined;
  }

  /** Notes that the reader has one more token. */
  advance(): void {
    if (this.reader.isReasoning) this.thought += 1;
    this.change();
  }

  /** Changes the grammar if the reader has come to another part of the answer. */
  private change(): void {
    const phase = this.phaseNow();
    if (phase === this.phase) return;
    this.phase = phase;
    this.dispose();
    this.present = phase === null ? undefined : (this.grammarFor(phase) ?? undefined);
    const begun = this.reader.argumentsSoFar.trimStart();
    if (begun !== '' && this.present !== undefined) this.acceptText(begun);
  }

  /** A free token can have the end of a mark and the beginning of the arguments. */
  private acceptText(text: string): void {
    // The text of the model can have another form than the schema: it continues as it began.
    for (const token of this.loaded.model.tokenize(text, false, true))
      if (this.present?.accept(token) === false) this.dispose();
  }

  private phaseNow(): string | null {
    const { argumentsOf, isReasoning, hasCalls } = this.reader;
    if (isReasoning && this.hasThoughtEnough) return END_OF_REASONING;
    if (this.required === null) return null;
    if (argumentsOf !== null) return `arguments of ${argumentsOf.name}`;
    return isReasoning || hasCalls || this.required.text === 'free' ? null : TEXT;
  }

  private get hasThoughtEnough(): boolean {
    if (this.thoughts === null) return false;
    if (this.phase === END_OF_REASONING) return true;
    const isOver = this.thought - this.thoughts.tokens;
    return isOver >= LETTER_TOKENS || (isOver >= 0 && this.answer.isWhole);
  }

  /** Null: a call that the model need not write has a schema that no grammar can say. */
  private grammarFor(phase: string): Grammar | null {
    if (phase === END_OF_REASONING || this.required === null)
      return this.make([`root ::= ${this.spellClose(this.thoughts?.close ?? '')}`]);
    const { text, row, tools } = this.required;
    if (phase !== TEXT) {
      const called = this.reader.argumentsOf;
      const tool = tools.find(({ name }) => name === called?.name);
      try {
        if (called === null) return null;
        const schema = argumentsOf(tool);
        return this.make([this.loaded.limited(() => argumentsGrammar(called.row, schema))]);
      } catch (error) {
        const isUnsaid = error instanceof SvcError && error.code === 'capability_missing';
        if (text === 'free' && isUnsaid) return null;
        throw error;
      }
    }
    const canBegin = row === null ? '' : tools.map(({ name }) => headRule(row, name)).join(' | ');
    if (text === 'free' || text === 'none') return this.make([`root ::= ${canBegin}`]);
    const made = this.loaded.limited(() => textGrammar(text));
    const { text: written, unsaid, rules } = made;
    this.saysAll = unsaid.length === 0;
    const ways = rules === undefined ? null : countWays(rules);
    const onText = ways === null ? undefined : (more: string) => takeText(ways, more);
    if (canBegin === '') return this.make([written], onText);
    const answer = written.replace(/^root ::=/, 'answer ::=');
    return this.make([`root ::= answer | ${canBegin}`, answer], onText);
  }

  /** The tokens that the model was trained with. Only where they do not spell it, any that do. */
  private spellClose(close: string): string {
    const { model } = this.loaded;
    const tokens = model.tokenize(close, true, true);
    const hasEndToken = tokens.some((token) => model.isEogToken(token));
    if (hasEndToken || model.detokenize(tokens, true) !== close) return literal(close);
    return tokens.map((token) => `<[${token}]>`).join(' ');
  }

  private make(rules: readonly string[], onText?: (text: string) => void): Grammar {
    const made = () => new Grammar(this.loaded.model, rules.join('\n'), onText);
    const text = this.required?.text;
    const param = typeof text === 'object' ? text.param : 'response_format';
    return makeOrRefuse(made, this.phase === TEXT ? param : 'tools');
  }
}

const TEXT = 'text';
const END_OF_REASONING = 'end of reasoning';
/** The most tokens that end a letter. It has at most four bytes. */
const LETTER_TOKENS = 3;

/** The schema of the arguments of a tool. Without parameters there is exactly one value. */
function argumentsOf(tool: Tool | undefined): Readonly<Record<string, unknown>> {
  const { type = 'object', properties, required, ...others } = tool?.parameters ?? {};
  const isEmpty = [properties, required].every((part) => Object.keys(part ?? {}).length === 0);
  return type === 'object' && isEmpty && isNote(others)
    ? { type, additionalProperties: false }
    : { type, ...tool?.parameters };
}

/**
 * llama.cpp parses the grammar. It refuses a grammar that refers to itself without a value between.
 */
function makeOrRefuse<G>(make: () => G, param: TextForm['param'] | 'tools'): G {
  try {
    return make();
  } catch (cause) {
    if (cause instanceof SvcError) throw cause;
    throw new SvcError(
      'capability_missing',
      'The engine cannot make a grammar of the form: a part of it refers only to itself.',
      { param, cause },
    );
  }
}
