import { readFileSync } from 'node:fs';

/** A piece of prose that a person reads, with the line it begins on. */
export interface Prose {
  file: string;
  line: number;
  kind: 'comment' | 'text' | 'name';
  text: string;
}

/** Words that plain English does without, and what says the same. */
export const HARD_WORDS: Readonly<Record<string, string>> = {
  told: 'reported, said, listed',
  tells: 'says, reports, shows',
  whoever: 'the client, the user',
  whomever: 'the client, the user',
  nobody: 'no client, no user',
  somebody: 'a client, a user',
  anybody: 'any client, any user',
  everybody: 'each client, each user',
  anew: 'again',
  stands: 'is',
  held: 'kept, full, blocked',
  leapt: 'jumped',
  'taken up': 'resumed, continued',
  'take up': 'resume, use',
  'takes up': 'resumes, uses',
  'took up': 'resumed, used',
  'gives back': 'returns',
  'give back': 'return',
  'given back': 'returned',
  'a way to': 'name the thing',
  'the way to': 'name the thing',
  'of which': 'start a sentence',
  'goes by': 'uses',
  'lets go': 'closes, frees',
  'let go': 'closed, freed',
  'comes true': 'happens',
  'of its own': 'its own',
  'is none': 'is absent, is not one',
  'of before': 'earlier, previous',
  'of others': 'third-party, of other users',
  'servers of tools': 'tool servers',
  'server of tools': 'tool server',
};

export const SENTENCE_WORDS_MAX = 25;

const PATTERN = new RegExp(`\\b(${Object.keys(HARD_WORDS).join('|')})\\b`, 'gi');

/** The hard words of a text, in lower case. */
export function hardWords(text: string): string[] {
  return [...withoutCode(text).replace(/\s+/g, ' ').matchAll(PATTERN)].map(([word]) =>
    word.toLowerCase(),
  );
}

/** Sentences with more words than a reader keeps in mind. */
export function longSentences(text: string): string[] {
  return withoutCode(text)
    .split(/(?<=[.!?:;])\s+|\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)/)
    .map((sentence) => sentence.replace(/\s+/g, ' ').trim())
    .filter((sentence) => wordsOf(sentence) > SENTENCE_WORDS_MAX);
}

/** The beginning of a comment whose subject is a pronoun: no word before it says what it is. */
export function pronounFirst(text: string): string[] {
  return /^(?:It|They|Those (?:of|that|whose)|One (?:who|that))\b.*/.exec(text)?.slice(0, 1) ?? [];
}

function wordsOf(sentence: string): number {
  return sentence.split(' ').filter((word) => /[\p{L}\d`]/u.test(word)).length;
}

/** Code and addresses are no prose: pieces of code in a row count as one word. */
function withoutCode(text: string): string {
  return text
    .replace(/\*\*/g, '')
    .replace(/```[\s\S]*?```/g, '')
    .replace(/<br>/g, '\n\n')
    .replace(/`[^`]*`/g, '`')
    .replace(/`(?: `)+/g, '`')
    .replace(/\]\([^)]*\)/g, ']')
    .replace(/https?:\S+/g, '`');
}

/** Comments, texts of more than two words, names of tests and what they wait for. */
export function proseOfSource(file: string): Prose[] {
  const code = readFileSync(file, 'utf8');
  const lineOf = (index: number) => code.slice(0, index).split('\n').length;
  const found: Prose[] = [];
  for (const { index, 0: all } of code.matchAll(
    /(?<=^|[\s(,;=])\/\*\*?[\s\S]*?\*\/|(?<=^|\s)\/\/ .*(?:\n\s*\/\/ .*)*/g,
  )) {
    const text = all
      .replace(/^\/\*\*?|\*\/$/g, '')
      .replace(/^\s*(?:\*|\/\/) ?/gm, '')
      .trim();
    if (!/biome-ignore|@type|@param|@returns/.test(text))
      found.push({ file, line: lineOf(index), kind: 'comment', text });
  }
  const bare = code.replace(/(?<=^|[\s(,;=])\/\*[\s\S]*?\*\/|(?<=^|\s)\/\/ .*/g, (all) =>
    all.replace(/[^\n]/g, ' '),
  );
  for (const { index, 1: test, 3: text = '' } of bare.matchAll(
    /(\btest(?:\.skip)?\(\s*|\bit\(\s*|\bwaitFor\(\s*)?(['`"])((?:(?!\2)[^\\\n]|\\.)*)\2/g,
  )) {
    if (text.split(' ').length > 2)
      found.push({ file, line: lineOf(index), kind: test === undefined ? 'text' : 'name', text });
  }
  return found;
}

/** Paragraphs of a page, without its code. A row of a table is a piece by itself. */
export function proseOfPage(file: string): Prose[] {
  const text = readFileSync(file, 'utf8').replace(/```[\s\S]*?```/g, (all) =>
    all.replace(/[^\n]/g, ''),
  );
  const found: Prose[] = [];
  let line = 1;
  for (const part of text.split(/\n(?=\s*\n|\||\s*[-*] |\s*\d+\. )/)) {
    const cells = part.trimStart().startsWith('|') ? part.split(/(?<!\\)\|/) : [part];
    for (const cell of cells)
      if (cell.trim() !== '') found.push({ file, line, kind: 'text', text: cell.trim() });
    line += part.split('\n').length;
  }
  return found;
}
