import { isWide, widthOf } from './width.ts';

/**
 * Breaks a streamed text between words, before the terminal breaks it within one.
 *
 * 1. A word waits until it is whole. A wide character is a word by itself.
 * 2. Spaces at a break are dropped. A word that is longer than a line is left to the terminal.
 * 3. Lines between fences of three backticks stay as they are.
 */
export class WordWrap {
  private readonly columns: () => number;
  private column = 0;
  private spaces = '';
  private word = '';
  /** The beginning of the present line of the text. */
  private line = '';
  private isFenced = false;

  constructor(columns: () => number) {
    this.columns = columns;
  }

  /** The text that can be printed now. */
  add(text: string): string {
    let out = '';
    for (const character of text) {
      if (character === '\n') out += this.endLine();
      else {
        if (this.line.length < LINE_HEAD) this.line += character;
        if (this.isFenced) out += character;
        else if (character === ' ' || character === '\t') {
          out += this.endWord();
          this.spaces += character;
        } else if (isWide(character)) {
          out += this.endWord();
          this.word = character;
          out += this.endWord();
        } else this.word += character;
      }
    }
    return out;
  }

  /** The word that waits. */
  end(): string {
    const out = this.endWord();
    this.spaces = '';
    return out;
  }

  /** The cursor was moved to the beginning of a line. */
  restart(): void {
    this.column = 0;
  }

  private endLine(): string {
    const out = this.end();
    if (this.line.trimStart().startsWith(FENCE)) this.isFenced = !this.isFenced;
    this.line = '';
    this.column = 0;
    return `${out}\n`;
  }

  private endWord(): string {
    const { word, spaces } = this;
    if (word === '') return '';
    const [width, gap] = [widthOf(word), widthOf(spaces)];
    const breaks = this.column > 0 && this.column + gap + width > this.columns();
    this.column = breaks ? width : this.column + gap + width;
    this.word = '';
    this.spaces = '';
    return breaks ? `\n${word}` : `${spaces}${word}`;
  }
}

/**
 * A text of one line, broken between words so that it fits so many columns. The lines after the
 * first begin below the text, which begins at the column `indent`.
 */
export function wrapHanging(text: string, indent: number, columns: number): string {
  const room = Math.max(TEXT_MIN, columns - indent);
  if (widthOf(text) <= room) return text.trimEnd();
  const wrap = new WordWrap(() => room);
  return indentBelow(wrap.add(text) + wrap.end(), indent);
}

/** A text of several lines. Each that does not fit is broken between words, below its beginning. */
export function wrapLines(text: string, columns: number): string {
  return text
    .split('\n')
    .map((line) => {
      if (widthOf(line) <= columns) return line;
      const indent = line.length - line.trimStart().length;
      return line.slice(0, indent) + wrapHanging(line.slice(indent), indent, columns);
    })
    .join('\n');
}

/** The lines after the first, moved to the column `indent`. */
export function indentBelow(text: string, indent: number): string {
  return text.replaceAll('\n', `\n${' '.repeat(indent)}`);
}

/** A narrower column of text cannot be read. */
const TEXT_MIN = 20;
const FENCE = '```';
/** Characters of a line that show whether it is a fence. */
const LINE_HEAD = 16;
