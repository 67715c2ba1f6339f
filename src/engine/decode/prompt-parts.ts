/**
 * How the tokens of a sequence were computed: so many in batches, then so many one by one, and
 * again in batches. Batches of a part count from its beginning. The same parts round the same.
 */
export type Parts = readonly number[];

/** A longer list is not kept: each turn of a conversation adds two. */
const PARTS_MAX = 64;

export function tokensIn(parts: Parts): number {
  return parts.reduce((sum, part) => sum + part, 0);
}

/** The most first tokens, at most so many, after which a batch ends. */
export function countKeepable(parts: Parts, most: number, batch: number): number {
  let kept = 0;
  for (const [index, part] of parts.slice(0, PARTS_MAX).entries()) {
    const left = most - kept;
    if (left < part) return kept + (index % 2 === 0 ? Math.floor(left / batch) * batch : left);
    kept += part;
  }
  return kept;
}

/** The parts of the first tokens, which end with a batch. */
export function firstParts(parts: Parts, tokens: number): number[] {
  const first: number[] = [];
  let left = tokens;
  for (const part of parts) {
    if (left <= 0) break;
    first.push(Math.min(part, left));
    left -= part;
  }
  return first;
}

/** The parts with so many more tokens in batches. */
export function withBatches(parts: Parts, tokens: number, batch: number): number[] {
  const last = parts.at(-1) ?? 0;
  if (parts.length % 2 === 0) return [...parts, tokens];
  // A batch that is not full ends its part.
  return last % batch === 0 ? [...parts.slice(0, -1), last + tokens] : [...parts, 0, tokens];
}

/** The parts with so many more tokens one by one. */
export function withSingles(parts: Parts, tokens: number): number[] {
  if (tokens === 0) return [...parts];
  const last = parts.at(-1) ?? 0;
  return parts.length % 2 === 0 ? [...parts.slice(0, -1), last + tokens] : [...parts, tokens];
}

/** The sizes of the batches that compute the tokens after the first ones. */
export function* batchesAfter(parts: Parts, kept: number, batch: number): Generator<number> {
  let skipped = 0;
  for (const [index, part] of parts.entries()) {
    let done = Math.min(part, kept - skipped);
    skipped += done;
    for (; done < part; ) {
      const size = index % 2 === 0 ? Math.min(batch, part - done) : 1;
      yield size;
      done += size;
    }
  }
}
