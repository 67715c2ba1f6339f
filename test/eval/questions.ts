import { readLines } from './ask.ts';

export interface Question {
  readonly kind: string;
  readonly text: string;
  /** All of these must be in the answer, each as one of its alternatives. Empty: the question must be declined. */
  readonly needed: readonly (readonly string[])[];
  /** The open half was read while the corpus grew, the blind half was not. */
  readonly half: 'open' | 'blind';
}

export async function readQuestions(): Promise<Question[]> {
  const lines = await readLines(new URL('questions.txt', import.meta.url));
  return lines.map((line, index) => {
    const [kind = '', text = '', needs = ''] = line.split(' | ').map((part) => part.trim());
    return { kind, text, needed: neededOf(needs), half: index % 2 === 0 ? 'open' : 'blind' };
  });
}

function neededOf(needs: string): string[][] {
  return needs === 'DECLINE' ? [] : needs.split(' & ').map((part) => part.split(' ~ '));
}
