/** A request for vectors, to any remote provider. */
export interface EmbedRequest {
  model: string;
  texts: readonly string[];
  options: { dimensions?: number };
}

/** The tokens of several batches. Null: the provider does not say them all. */
export function tokensSoFar(before: number | null, batch: unknown): number | null {
  return before === null || !Number.isSafeInteger(batch) ? null : before + Number(batch);
}
