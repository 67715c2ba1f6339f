import { duration } from '../terminal/print/format.ts';
import type { Run } from './follow.ts';

/** How long an answer took, as the daemon recorded it. Null: not known, or not there. */
export interface Stats {
  /** From the acceptance of the run to its first output, in milliseconds. */
  first_token_ms: number | null;
  /** Tokens per second after the first token, as the daemon reports it. */
  tokens_per_second: number | null;
  input_tokens: number | null;
  output_tokens: number | null;
  /** How long the answer waited for its model to be in memory. Null: it was there. */
  load_ms: number | null;
  /** From the acceptance of the run to its end. */
  total_ms: number | null;
}

export function statsOf({ usage, load_ms, tokens_per_second, ...run }: Run): Stats {
  const { created_at, first_output_at, ended_at } = run;
  return {
    first_token_ms: between(created_at, first_output_at),
    tokens_per_second: tokens_per_second ?? null,
    input_tokens: usage.input_tokens,
    output_tokens: usage.output_tokens,
    load_ms: load_ms ?? null,
    total_ms: between(created_at, ended_at),
  };
}

/** One line for a person. Unknown values are left out. */
export function statsText(stats: Stats): string {
  const { first_token_ms, tokens_per_second, input_tokens, output_tokens, load_ms, total_ms } =
    stats;
  const parts = [
    first_token_ms === null ? null : `first token ${duration(first_token_ms)}`,
    tokens_per_second === null ? null : `${tokens_per_second} tokens/s`,
    output_tokens === null ? null : `${input_tokens ?? '?'} tokens in, ${output_tokens} out`,
    load_ms === null ? null : `load ${duration(load_ms)}`,
    total_ms === null ? null : `total ${duration(total_ms)}`,
  ];
  return parts.filter((part) => part !== null).join(' · ');
}

function between(from: string | null, to: string | null): number | null {
  return from === null || to === null ? null : Math.max(0, Date.parse(to) - Date.parse(from));
}
