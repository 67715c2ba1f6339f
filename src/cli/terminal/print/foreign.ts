import { spellUnseen } from '../../../logs/plain.ts';
import { takeFitting } from '../../../logs/width.ts';
import { columnsOfStdout } from './table.ts';

/**
 * Foreign text that a person judges, such as the description of a tool. Characters that a terminal
 * does not show are written out. Each line is indented and broken before the terminal breaks it, so
 * that none imitates one of ours.
 */
export function foreignText(text: string, columns = columnsOfStdout()): string {
  const width = Math.max(WIDTH_MIN, columns - MARGIN.length);
  return spellUnseen(text)
    .replaceAll('\t', TAB)
    .split('\n')
    .flatMap((line) => [...pieces(line, width)])
    .map((piece) => MARGIN + piece)
    .join('\n');
}

/** The same for JSON. A field that is written twice shows once, as the server gets it. */
export function foreignJson(json: string, columns?: number): string {
  let text = json;
  try {
    text = JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    // No JSON.
  }
  return foreignText(text, columns);
}

const MARGIN = '  ';
const TAB = '    ';
const WIDTH_MIN = 20;
/** Units of a text that surely fill a column: an emoji of a family has eleven for two. */
const UNITS = 16;

function* pieces(line: string, width: number): Generator<string> {
  let rest = line;
  // A unit takes two columns at most.
  while (rest.length * 2 > width) {
    const piece = takeFitting(rest.slice(0, width * UNITS), width);
    if (piece === '' || piece.length === rest.length) break;
    yield piece;
    rest = rest.slice(piece.length);
  }
  yield rest;
}
