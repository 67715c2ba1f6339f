import { APPROVAL_DIFF_BYTES_MAX, APPROVAL_DIFF_MS } from '../../limits.ts';

/** What changes between two texts of a file, as a unified diff. Null: it is too much to compute. */
export async function diffOf(path: string, before: string, after: string): Promise<string | null> {
  // Few calls need it.
  const { createTwoFilesPatch } = await import('diff');
  const patch = createTwoFilesPatch(path, path, before, after, '', '', {
    context: 3,
    timeout: APPROVAL_DIFF_MS,
  });
  if (patch === undefined || Buffer.byteLength(patch) > APPROVAL_DIFF_BYTES_MAX) return null;
  // What separates several files is above the names, and a tab after them has a time.
  return patch.replace(/^[\s\S]*?\n={67}\n/, '').replace(/^((?:---|\+\+\+) .*)\t$/gm, '$1');
}
