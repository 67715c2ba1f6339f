import type { FoundRun } from './port.ts';

/** Characters of a snippet, and of those before its first match. */
const [SNIPPET_MAX, BEFORE_MAX] = [200, 60];
/** Marks around what matches in a text. */
export const [BEGIN, END] = ['\u0002', '\u0003'];

/** The words around the first match of the first marked text. */
export function snippetOf(texts: readonly string[]): Pick<FoundRun, 'snippet' | 'matches'> {
  const marked = texts.find((text) => text.includes(BEGIN)) ?? '';
  const first = Math.max(0, marked.indexOf(BEGIN));
  const early = Math.max(0, first - BEFORE_MAX);
  const space = early === 0 ? -1 : marked.slice(early, first).search(/\s/);
  const from = early + space + 1;
  const end = from + SNIPPET_MAX;
  const cut = marked.slice(from, end).toWellFormed();
  return removeMarks(`${from > 0 ? '…' : ''}${cut}${end < marked.length ? `${END}…` : ''}`);
}

/** The snippet without its marks, and where they were. */
function removeMarks(marked: string): Pick<FoundRun, 'snippet' | 'matches'> {
  let snippet = '';
  const matches: [number, number][] = [];
  for (const [index, piece] of marked.split(BEGIN).entries()) {
    const [before = '', ...after] = piece.split(END);
    const [matched, rest] = index === 0 ? ['', before + after.join('')] : [before, after.join('')];
    if (matched !== '') matches.push([snippet.length, snippet.length + matched.length]);
    snippet += matched + rest;
  }
  return { snippet, matches };
}
