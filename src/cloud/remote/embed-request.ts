import type { EmbedText } from '../../contract/embed-input.ts';

/** A request for vectors, to any remote provider. */
export interface EmbedRequest<Text extends EmbedText = string> {
  model: string;
  texts: readonly Text[];
  options: { dimensions?: number };
}

/** The tokens of several batches. Null: the provider does not say them all. */
export function tokensSoFar(before: number | null, batch: unknown): number | null {
  const isCount = Number.isSafeInteger(batch) && Number(batch) >= 0;
  return before !== null && isCount ? before + Number(batch) : null;
}
