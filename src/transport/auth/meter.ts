import { SvcError } from '../../errors.ts';
import { Allowance } from './allowance.ts';
import type { Holder } from './holder.ts';
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
  /** Open requests that began a run, which counts instead of them. */
  private running = 0;
  private readonly allowance = new Allowance();

  constructor(now: () => number) {
    this.now = now;
  }

  /** One request, which may begin. */
  request(entry: Bounds): Pick<Holder, 'begin' | 'others' | 'ran'> {
    let hasRun = false;
    return {
      begin: () => {
        const end = this.begin(entry);
        return () => {
          if (end() && hasRun) this.running -= 1;
        };
      },
      others: () => this.open - this.running - (hasRun ? 0 : 1),
      ran: () => {
        if (!hasRun) this.running += 1;
        hasRun = true;
      },
    };
  }

  /** Returns what ends the request; true if it was open. Throws rate_limited. */
  private begin({ name, rate, concurrent }: Bounds): () => boolean {
    if (concurrent !== null && this.open >= concurrent)
      throw refusal(
        `The token ${name} has ${this.open} requests in progress, as many as it may have.`,
        RETRY_AFTER_MS,
      );
    if (rate !== null) {
      const early = this.allowance.take(this.now(), MINUTE_MS / rate, MINUTE_MS);
      if (early > 0)
        throw refusal(`The token ${name} may send ${rate} requests a minute.`, Math.ceil(early));
    }
    this.open += 1;
    let isOpen = true;
    return () => {
      const wasOpen = isOpen;
      if (isOpen) this.open -= 1;
      isOpen = false;
      return wasOpen;
    };
  }
}

type Bounds = Pick<TokenEntry, 'name' | 'rate' | 'concurrent'>;

function refusal(message: string, retry_after_ms: number): SvcError {
  return new SvcError('rate_limited', message, { details: { retry_after_ms } });
}

const MINUTE_MS = 60_000;
const RETRY_AFTER_MS = 1000;
