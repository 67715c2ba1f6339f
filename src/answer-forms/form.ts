import type { Syntax } from './arguments.ts';
import { laterKey, nameAsKey, objectHead } from './object.ts';
import { NAME, type Pattern } from './pattern.ts';

/** How models of some families write calls of tools. */
export interface CallRow {
  readonly families: string;
  /** Texts that a chat template of such a model has. One of each list is enough. */
  readonly marks: readonly (string | readonly string[])[];
  /** Texts that it has not. */
  readonly without?: readonly string[];
  /** As the model was trained. It is what svc writes into a prompt, and forces. */
  readonly written: Written;
  /** As it may come: models are not exact. */
  readonly read: ReadAs;
  readonly syntax: Syntax;
}

export interface Written {
  /** Up to the arguments of the first call. */
  readonly head: Head;
  /** From the arguments of a call to those of the next one. */
  readonly again: Head;
  /** After the arguments of the last call. */
  readonly tail: string;
}

/** Texts, the name of the tool, and words that a model chooses. */
export type Head = readonly (
  | string
  | typeof NAME
  | { readonly word: RegExp; readonly most: number }
)[];

export interface ReadAs {
  /** A call up to its arguments, where the answer has none yet. */
  readonly open: Pattern;
  /** The same at the beginning of an answer only. */
  readonly first?: Pattern;
  /**
   * A mark that is enough to begin a call. A call that is cut off before its arguments is not text.
   */
  readonly mark?: Pattern;
  /** Another call after it. */
  readonly next: Pattern;
  /** Marks that may come after a call. They are not text. */
  readonly close: readonly Pattern[];
  /** A call can also come before the reasoning is closed. */
  readonly inThoughts?: boolean;
}

/** How models of some families separate their reasoning, and the marks around their text. */
export interface ThoughtRow {
  readonly families: string;
  readonly marks: readonly (string | readonly string[])[];
  /** Null: the models do not reason. */
  readonly reasoning: Reasoning | null;
  /** Marks around a text. They are not part of it. */
  readonly around?: readonly Pattern[];
  /** The same at the beginning of an answer only. */
  readonly first?: readonly Pattern[];
}

export interface Reasoning {
  /** The end of a prompt that has opened it. */
  readonly begun: string;
  readonly open: Pattern;
  readonly close: readonly Pattern[];
  /** Ends the reasoning of a model that has thought long enough. */
  readonly closing: string;
  /** Reasoning can begin anywhere, not only before the text of the answer. */
  readonly channels?: boolean;
}

type Row = Pick<CallRow, 'families' | 'marks' | 'without'>;
type Marks = readonly string[];

/** Loose text that may be missing. */
export const maybe = (...pattern: Pattern) => ({ maybe: pattern });
/** One of these texts. */
export const one = (...texts: readonly string[]) => ({ one: texts.map((text) => [text]) });

const SEPARATOR = maybe(one(',', ';'));
const JSON_SYNTAX: Syntax = { kind: 'json' };

interface Objects extends Row {
  /** Before the first call. Empty: the object alone is the mark. */
  readonly open: string;
  /** Other spellings of it. */
  readonly others?: Marks;
  readonly close: string;
  /** The calls are the elements of one list. */
  readonly isList?: boolean;
  readonly keys?: readonly [name: string, parameters: string];
  /** The list ends with the last call, without a mark. */
  readonly between?: string;
}

/** Calls that are objects with a name and arguments. */
export function objects(row: Objects): CallRow {
  const { families, marks, without, open, others = [], close, isList = false, between } = row;
  const [name, parameters] = row.keys ?? ['name', 'arguments'];
  const object = [`{"${name}": "`, NAME, `", "${parameters}": `] as const;
  const [begin, end] = isList ? ['[', ']'] : ['', ''];
  const head: Head = [open + begin + object[0], ...object.slice(1)];
  const texts = open === '' ? others : [open, ...others];
  const mark = texts.length === 0 ? [] : [one(...texts)];
  const isBare = open === '';
  const rests = [maybe('['), { rest: objectHead(!isBare) }];
  return {
    families,
    marks,
    ...(without === undefined ? {} : { without }),
    written: {
      head,
      again: isList
        ? [`}, ${object[0]}`, ...object.slice(1)]
        : [`}${close}${between ?? '\n'}${open}${object[0]}`, ...object.slice(1)],
      tail: `}${end}${close}`,
    },
    read: {
      open: [...(isBare ? [maybe(...mark)] : mark), ...rests],
      next: [SEPARATOR, maybe(...mark), ...rests],
      close: closes(close, ']', '}', '```', { rest: laterKey }),
      ...(isBare ? {} : { mark: [open] }),
    },
    syntax: JSON_SYNTAX,
  };
}

interface Named extends Row {
  /** Around all calls. */
  readonly section?: readonly [begin: string, end: string];
  /** The beginning of each call, as it is read. It has the name. */
  readonly open: Pattern;
  /** The beginning of each call, as it is written. */
  readonly head: Head;
  readonly close: string;
  /** Also read after a call. */
  readonly others?: Marks;
  readonly syntax?: Syntax;
  readonly inThoughts?: boolean;
  /** Between two calls. */
  readonly between?: string;
  /** What alone says that a call begins. Absent: its first text. */
  readonly mark?: Pattern;
  /** Another call, as it is read. */
  readonly next?: Pattern;
  /** Another call, as it is written. */
  readonly again?: Head;
  readonly first?: Pattern;
}

/** Calls that have their name in a mark, before their arguments. */
export function namedCalls(row: Named): CallRow {
  const { families, marks, without, section: [begin, end] = ['', ''], open, head } = row;
  const { close, others = [], between = '' } = row;
  const section = begin === '' ? [] : [maybe(begin)];
  return {
    families,
    marks,
    ...(without === undefined ? {} : { without }),
    written: {
      head: [begin, ...head].filter((part) => part !== ''),
      again: row.again ?? [close + between, ...head].filter((part) => part !== ''),
      tail: close + end,
    },
    read: {
      open: [...section, ...open],
      next: [SEPARATOR, ...section, ...(row.next ?? open)],
      close: closes(close, end, ...others),
      ...(row.mark === undefined ? markOf([...section, ...open]) : { mark: row.mark }),
      ...(row.first === undefined ? {} : { first: row.first }),
      ...(row.inThoughts === true ? { inThoughts: true } : {}),
    },
    syntax: row.syntax ?? JSON_SYNTAX,
  };
}

/** Calls that are objects whose only key is the name. */
export function keyedCalls({
  open,
  close,
  ...row
}: Row & { open: string; close: string }): CallRow {
  return {
    ...row,
    written: {
      head: [`${open}[{"`, NAME, '": '],
      again: ['}, {"', NAME, '": '],
      tail: `}]${close}`,
    },
    read: {
      open: [open, maybe('['), { rest: nameAsKey }],
      next: [SEPARATOR, maybe(open), maybe('['), { rest: nameAsKey }],
      close: closes(close, ']', '}'),
      mark: [open],
    },
    syntax: JSON_SYNTAX,
  };
}

/** Its first text, or its optional text. */
function markOf([first]: Pattern): Pick<ReadAs, 'mark'> {
  if (typeof first === 'string') return { mark: [first] };
  return typeof first === 'object' && 'maybe' in first ? { mark: first.maybe } : {};
}

/** The row whose marks a chat template has. Null: none. */
export function rowOf<R extends Pick<CallRow, 'marks' | 'without'>>(
  rows: readonly R[],
  template: string,
): R | null {
  const has = (text: string) => template.includes(text);
  return (
    rows.find(
      ({ marks, without = [] }) =>
        marks.every((mark) => [mark].flat().some(has)) && !without.some(has),
    ) ?? null
  );
}

export function closes(...parts: Pattern): Pattern[] {
  return parts
    .filter((part) => typeof part !== 'string' || part.trim() !== '')
    .map((part) => [part]);
}
