import type { FoundRun, RunRow } from '../../../src/kernel/store/port.ts';
import { isBeginning } from '../../../src/kernel/store/search-terms.ts';

/** A run with all terms in its texts. The snippet is the text with the first term. */
export function foundRun(row: RunRow, terms: readonly string[]): FoundRun | null {
  const { run_id, state, provider, model, created_at, conversation = run_id, record } = row;
  const texts = [String(record?.prompt ?? ''), String(record?.output ?? '')];
  const places = terms.map((term) => {
    const words = term.split(/[^\p{L}\p{N}]+/u).filter((word) => word !== '');
    const end = isBeginning(term) ? '[\\p{L}\\p{N}]*' : '';
    const pattern = new RegExp(
      `(?<![\\p{L}\\p{N}])${words.join('[^\\p{L}\\p{N}]+')}${end}(?![\\p{L}\\p{N}])`,
      'iu',
    );
    return texts.map((said) => pattern.exec(said)).find((match) => match !== null);
  });
  const [first] = places;
  if (first === undefined || places.includes(undefined)) return null;
  const { index, input, 0: all } = first;
  return {
    run_id,
    state,
    provider,
    model,
    created_at,
    conversation,
    snippet: input,
    matches: [[index, index + all.length]],
  };
}
