/** The most similar of the known names; null if none is near. */
export function suggest(word: string, known: readonly string[]): string | null {
  let best: string | null = null;
  let least = Math.max(1, Math.floor(word.length / 3)) + 1;
  for (const name of known) {
    const distance = name.startsWith(word) && word.length > 1 ? 0 : editDistance(word, name);
    if (distance < least) [best, least] = [name, distance];
  }
  return best;
}

/** Number of inserted, removed, changed or swapped letters between two words. */
function editDistance(from: string, to: string): number {
  let before: number[] = [];
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let i = 1; i <= from.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= to.length; j += 1) {
      const same = from[i - 1] === to[j - 1];
      const swapped = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1];
      const changed = Math.min(
        cell(row, j) + 1,
        cell(next, j - 1) + 1,
        cell(row, j - 1) + (same ? 0 : 1),
      );
      next[j] = swapped ? Math.min(changed, cell(before, j - 2) + 1) : changed;
    }
    before = row;
    row = next;
  }
  return cell(row, to.length);
}

function cell(row: number[], index: number): number {
  return row[index] ?? Number.POSITIVE_INFINITY;
}
