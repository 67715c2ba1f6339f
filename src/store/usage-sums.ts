/** What was used in hours, summed by provider and model. */

export interface UsageQuery {
  from_hour: number;
  /** What is summed apart, besides provider and model. */
  key: 'day' | 'client' | null;
  /** Only what this client used. */
  client?: string;
}

export interface UsageSum {
  /** Days since 1970, or the client. */
  key: string | number | null;
  provider: string;
  model: string;
  cloud: boolean;
  runs: number;
  /** Requests for embeddings. They are counted only at cloud providers. */
  embeddings: number;
  input_tokens: number;
  output_tokens: number;
  /** Runs whose numbers are estimated. */
  estimated: number;
  /** Requests for embeddings whose numbers are estimated. */
  estimated_embeddings: number;
}

export interface UsageSums {
  /** The first hour that is counted at all; null if there is none. */
  since_hour: number | null;
  sums: UsageSum[];
}

export const HOUR_MS = 3_600_000;
/** Rows of one hour in one table. The clients of further ones are counted together. */
export const HOUR_ROWS_MAX = 1000;
export const OTHERS = '(other clients)';
