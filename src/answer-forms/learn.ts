import { type CallRow, closes, type Head, type ThoughtRow } from './form.ts';
import { NAME, type Pattern } from './pattern.ts';

/**
 * The form of a chat template that no row has, from two conversations that show it. Only what both
 * have in common belongs to the form: no id, no name and no question of one of them.
 */

/** The words of a sample conversation. No template has them. */
export interface Probe {
  readonly question: string;
  readonly answer: string;
  readonly thought: string;
  readonly about: string;
  readonly names: readonly [string, string];
  readonly ids: readonly [string, string];
  readonly value: string;
}

export const KEY = 'qzkey';
export const PROBES: readonly [Probe, Probe] = [
  {
    question: 'Qzwhat',
    answer: 'Qzbecause',
    thought: 'Qzperhaps',
    about: 'Qzabout',
    names: ['qzfirst', 'qzsecond'],
    ids: ['call_probe_0', 'call_probe_1'],
    value: 'qzvalue',
  },
  {
    question: 'Xjwhen',
    answer: 'Xjhence',
    thought: 'Xjmaybe',
    about: 'Xjon',
    names: ['xjone', 'xjother'],
    ids: ['probe_of_call_7', 'probe_of_call_8'],
    value: 'xjtext',
  },
];

/** A conversation as the template writes it. Null: it refuses it. */
export interface Shown {
  /** Up to the answer. */
  readonly prompt: string | null;
  /** With an answer in text. */
  readonly plain: string | null;
  /** With one call, and with two. */
  readonly calls: readonly [string | null, string | null];
  /** With reasoning and text. */
  readonly reasoned: string | null;
  /** After the text of an answer. */
  readonly end: string;
}

interface Marks {
  prefix: string;
  middle: string;
  end: string;
  between: string | null;
}

/** Null: a call is not written as its name and JSON after it. */
export function learnCalls(all: readonly [Shown, Shown]): CallRow | null {
  const [a, b] = all.map((shown, at) => marksOf(shown, PROBES[at] as Probe));
  if (a == null || b == null) return null;
  const prefix = cutAtBorder(sameEnd(a.prefix, b.prefix));
  const middle = findCommon(a.middle, b.middle);
  const end = commonBeginning(a.end, b.end);
  const between =
    a.between === null || b.between === null ? null : findCommon(a.between, b.between);
  if (middle === null || (prefix + end).trim() === '') return null;
  const head: Head = [prefix, NAME, ...middle];
  return {
    families: 'a form that its template shows',
    marks: [],
    written: { head, again: [...(between ?? [end, prefix]), NAME, ...middle], tail: end },
    read: {
      open: [prefix, NAME, ...(middle as Pattern)],
      next: [...((between ?? [prefix]) as Pattern), NAME, ...(middle as Pattern)],
      close: closes(end, '}', ']'),
    },
    syntax: { kind: 'json' },
  };
}

function marksOf({ prompt, plain, calls: [one, two], end }: Shown, probe: Probe): Marks | null {
  if (prompt === null || one === null) return null;
  const begin = Math.max(sameLength(prompt, one), sameLength(plain ?? '', one));
  const first = placeOf(one, begin, probe.names[0], probe.value);
  if (first === null) return null;
  const from = borderBefore(one, begin);
  const shared = two === null ? null : placeOf(two, begin, probe.names[0], probe.value);
  const second = shared === null ? -1 : (two ?? '').indexOf(probe.names[1], shared.jsonEnd);
  return {
    prefix: one.slice(from, first.name),
    middle: one.slice(first.nameEnd, first.json),
    end: cutBeforeEnd(one.slice(first.jsonEnd), end.trim()),
    between: shared === null || second < 0 ? null : (two ?? '').slice(shared.jsonEnd, second),
  };
}

/** Null: the template writes no reasoning, or does not say where it ends. */
export function learnThoughts(all: readonly [Shown, Shown]): ThoughtRow | null {
  const [a, b] = all.map(({ prompt, reasoned }, at) => {
    const { thought, answer } = PROBES[at] as Probe;
    const from = reasoned?.indexOf(thought) ?? -1;
    const to = reasoned?.indexOf(answer, from) ?? -1;
    if (reasoned === null || prompt === null || from < 0 || to < 0) return null;
    const begin = borderBefore(reasoned, sameLength(prompt, reasoned));
    return {
      open: reasoned.slice(Math.min(begin, from), from),
      close: reasoned.slice(from + thought.length, to),
    };
  });
  if (a == null || b == null) return null;
  const open = cutAtBorder(sameEnd(a.open, b.open)).trim();
  const close = commonBeginning(a.close, b.close);
  if (open === '' || close.trim() === '') return null;
  return {
    families: 'a form that its template shows',
    marks: [],
    reasoning: { begun: open, open: [open], close: [[close.trim()]], closing: close },
  };
}

/** The common beginning and end of two texts that differ between them. Null: none. */
function findCommon(a: string, b: string): Head | null {
  if (a === b) return a === '' ? [] : [a];
  const begin = commonBeginning(a, b);
  const end = sameEnd(a.slice(begin.length), b.slice(begin.length));
  return end === ''
    ? null
    : [begin, { word: /[\w.:-]/, most: 64 }, end].filter((part) => part !== '');
}

/** A token is not cut: a text that begins inside of a mark begins after it. */
function cutAtBorder(text: string): string {
  const cut = /^[^<>[\]]*[>\]]/.exec(text)?.[0] ?? '';
  return /[<[]/.test(cut) ? text : text.slice(cut.length);
}

/** The beginning of the mark in which this index is. */
function borderBefore(text: string, index: number): number {
  return index - (/[<[][^<>[\]\s]*$/.exec(text.slice(0, index))?.[0].length ?? 0);
}

/** The end of a call is followed by the end of the answer, which is not text. */
function cutBeforeEnd(text: string, end: string): string {
  const at = end === '' ? -1 : text.indexOf(end);
  return at < 0 ? text : text.slice(0, at);
}

/** Where a call has its name and its arguments. Null: they are not written as JSON. */
function placeOf(
  text: string,
  from: number,
  name: string,
  value: string,
): { name: number; nameEnd: number; json: number; jsonEnd: number } | null {
  const at = text.indexOf(name, from);
  const key = text.indexOf(`"${KEY}"`, at);
  const json = text.lastIndexOf('{', key);
  const end = text.indexOf('}', key) + 1;
  if (at < 0 || key < 0 || json < at || end === 0 || json - at > MARK_MAX) return null;
  try {
    if ((JSON.parse(text.slice(json, end)) as Record<string, unknown>)[KEY] !== value) return null;
  } catch {
    return null;
  }
  return { name: at, nameEnd: at + name.length, json, jsonEnd: end };
}
const MARK_MAX = 200;

/** The length of the common beginning. */
function sameLength(a: string, b: string): number {
  let length = 0;
  while (length < a.length && a[length] === b[length]) length += 1;
  return length;
}

function commonBeginning(a: string, b: string): string {
  return a.slice(0, sameLength(a, b));
}

function sameEnd(a: string, b: string): string {
  let length = 0;
  while (length < a.length && length < b.length && a.at(-1 - length) === b.at(-1 - length))
    length += 1;
  return length === 0 ? '' : a.slice(-length);
}
