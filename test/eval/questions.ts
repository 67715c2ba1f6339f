import { readLines } from './ask.ts';

export interface Question {
  readonly kind: string;
  readonly text: string;
  /**
   * All of these must be in the answer, each as one of its alternatives. Empty: the question must
   * be declined.
   */
  readonly needed: readonly (readonly string[])[];
  /**
   * The open half's failures were read while the corpus grew, the others' were not. Fresh ones were
   * written later; independent ones by another writer, second ones by one more.
   */
  readonly half: Half;
}

export type Half = 'open' | 'blind' | 'fresh' | 'independent' | 'second';

/**
 * So many of the first questions were once read whole while the corpus grew, so they are all open.
 */
const seen = 56;

/** The later files. Each is one half. */
const later = [
  ['blind', 'fresh'],
  ['independent', 'independent'],
  ['second', 'second'],
] as const;

export async function readQuestions(): Promise<Question[]> {
  const dealt = await readLines(new URL('questions.txt', import.meta.url));
  const all = dealt.map((line, index) =>
    questionOf(line, index < seen || index % 2 === 0 ? 'open' : 'blind'),
  );
  for (const [name, half] of later)
    all.push(
      ...(await readLines(new URL(`${name}.txt`, import.meta.url))).map((line) =>
        questionOf(line, half),
      ),
    );
  return all.filter(({ kind }) => !kind.startsWith('made '));
}

function questionOf(line: string, half: Half): Question {
  const [kind = '', text = '', needs = ''] = line.split(' | ').map((part) => part.trim());
  return { kind, text, needed: neededOf(needs), half };
}

function neededOf(needs: string): string[][] {
  return needs === 'DECLINE' ? [] : needs.split(' & ').map((part) => part.split(' ~ '));
}
