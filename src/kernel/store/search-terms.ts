import { SvcError } from '../../errors.ts';

/** Whether the last word of a term is only a beginning, such as `deplo*`. */
export function isBeginning(term: string): boolean {
  return /[\p{L}\p{N}]\*$/u.test(term);
}

/**
 * Words that the beginnings of one search may lead to, together. Each is looked up and marked, so
 * more would hold up commits.
 */
export const BEGUN_MAX = 64;

export function tooManyBegin(): SvcError {
  return new SvcError(
    'invalid_request',
    `More than ${BEGUN_MAX} words begin like those with * in this search.`,
    { param: 'words', hint: 'Write more of their letters.' },
  );
}
