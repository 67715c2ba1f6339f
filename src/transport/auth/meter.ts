import { SvcError } from '../../errors.ts';
import type { TokenEntry } from './token-file.ts';

/**
 * Counts the requests of one token. It owns how many it may begin now.
 *
 * 1. A token may begin its requests of a minute at once. Each comes back after its part of the
 *    minute.
 * 2. A refused request counts nothing.
 */
export class Meter {
  private readonly now: () => number;
  private open = 0;
  /** When all requests of a minute are back. */
  private full_at = 0;

  constructor(now: () => number) {
    this.now = now;
  }

  /** A request begins. It ends when the answer is called. Throws rate_limited. */
  begin({ name, rate, concurrent }: Pick<TokenEntry, 'name' | 'rate' | 'concurrent'>): () => void {
    if (concurrent !== null && this.open >= concurrent)
      throw refusal(
        `The token ${name} has ${this.open} requests in progress, as many as it may have.`,
        RETRY_AFTER_MS,
      );
    if (rate !== null) {
      const now = this.now();
      const next = Math.max(this.full_at, now) + MINUTE_MS / rate;
      const early = next - now - MINUTE_MS;
      if (early > ROUNDING_MS)
        throw refusal(`The token ${name} may send ${rate} requests a minute.`, Math.ceil(early));
      this.full_at = next;
    }
    this.open += 1;
    let isOpen = true;
    return () => {
      if (isOpen) this.open -= 1;
      isOpen = false;
    };
  }
}

function refusal(message: string, retry_after_ms: number): SvcError {
  return new SvcError('rate_limited', message, { details: { retry_after_ms } });
}

const MINUTE_MS = 60_000;
const RETRY_AFTER_MS = 1000;
/** The parts of a minute add up with small errors. */
const ROUNDING_MS = 0.01;
