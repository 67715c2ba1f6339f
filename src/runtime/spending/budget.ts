import { costOf, type Tokens } from '../../../machines/price.ts';
import type { RunContext } from '../../../machines/run/context.ts';
import { isTerminalEvent } from '../../../machines/run/context.ts';
import { isoTime } from '../../async/clock.ts';
import type { Config } from '../../config/config.ts';
import type { Price } from '../../contract/events.ts';
import { SvcError } from '../../errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { EventStore } from '../../kernel/store/port.ts';
import { HOUR_MS, type UsageSum } from '../../kernel/store/usage-sums.ts';
import type { Route } from '../runs/route.ts';
import { tokensIn } from '../runs/usage-of.ts';
import { costOfSum, priceOf, toCurrency } from './price.ts';

/** `cost`: in billionths of the currency. */
interface Used {
  cost: number;
  tokens: number;
}

export interface Spent {
  cost: number;
  tokens: number;
}

/**
 * Keeps the usage of cloud providers on one day (UTC) within the budget. It owns the reservations
 * of the attempts in progress.
 *
 * 1. The usage is read from the log, so a restart does not forget it. Hours that are over are read
 *    once. The number of a request for embeddings may change its hour, and the next one.
 * 2. An attempt in progress counts with its prompt and its `max_tokens` until its run has ended.
 * 3. A budget of money refuses a model without a price.
 * 4. Embeddings count too: with an estimate, until their provider says the number.
 */
export class Budget {
  private readonly options: BudgetOptions;
  private readonly expected = new Map<string, Used>();
  /** The sums of the day before an hour. */
  private past: { from_hour: number; before_hour: number; sums: Promise<UsageSum[]> } | null = null;

  constructor(options: BudgetOptions) {
    this.options = options;
    options.kernel.subscribe?.({ machine: 'run' }, ({ type, stream }) => {
      if (isTerminalEvent(type)) this.expected.delete(stream);
    });
  }

  /** When the day ends. */
  resetsAt(): number {
    return (Math.floor(this.options.kernel.clock.now() / DAY_MS) + 1) * DAY_MS;
  }

  /** The usage of today, and the expected usage of the attempts in progress. */
  async readSpent(): Promise<Spent> {
    const { store, config } = this.options;
    const past = this.readPast();
    const [before, { sums }] = await Promise.all([
      past.sums,
      store.usage({ from_hour: past.before_hour, key: null }),
    ]);
    const all = [...this.expected.values()];
    for (const sum of [...before, ...sums])
      if (sum.cloud) {
        const { kept, present } = costOfSum(sum, config.prices);
        all.push({ cost: kept + (present ?? 0), tokens: sum.input_tokens + sum.output_tokens });
      }
    return {
      cost: toCurrency(all.reduce((total, { cost }) => total + cost, 0)),
      tokens: all.reduce((total, { tokens }) => total + tokens, 0),
    };
  }

  private readPast() {
    const { store, kernel } = this.options;
    const from_hour = Math.round((this.resetsAt() - DAY_MS) / HOUR_MS);
    const before_hour = Math.max(from_hour, Math.floor(kernel.clock.now() / HOUR_MS) - 1);
    const known = this.past;
    if (known?.from_hour === from_hour && known.before_hour === before_hour) return known;
    const read = store.usage({ from_hour, before_hour, key: null }).then(({ sums }) => sums);
    const past = { from_hour, before_hour, sums: read };
    this.past = past;
    // A read that failed is tried again.
    read.catch(() => {
      if (this.past === past) this.past = null;
    });
    return past;
  }

  /** Why no run may go to this target now; null if one may. */
  async refusal(target: Route): Promise<SvcError | null> {
    const { config } = this.options;
    const { budget_per_day, budget_tokens_per_day, currency } = config;
    if (!target.cloud || (budget_per_day === null && budget_tokens_per_day === null)) return null;
    if (budget_per_day !== null && priceOf(target, config.prices) === null)
      return new SvcError(
        'price_unknown',
        `${target.provider}/${target.model} has no price, so budget_per_day cannot count it.`,
      );
    const { cost, tokens } = await this.readSpent();
    const [used, setting] =
      budget_per_day !== null && cost >= budget_per_day
        ? [`${amount(cost)} of ${amount(budget_per_day)} ${currency}`, 'budget_per_day']
        : budget_tokens_per_day !== null && tokens >= budget_tokens_per_day
          ? [`${tokens} of ${budget_tokens_per_day} tokens`, 'budget_tokens_per_day']
          : [null, ''];
    if (used === null) return null;
    const resets_at = isoTime(this.resetsAt());
    return new SvcError(
      'budget_spent',
      `Cloud providers have used ${used} today. The next day begins at ${resets_at}.`,
      {
        hint: `Wait for the next day, raise ${setting} in the configuration, or ask a local model.`,
        details: { resets_at, cost, tokens },
      },
    );
  }

  /** Throws budget_spent and price_unknown when no target of a run may be called now. */
  async check(targets: readonly Route[]): Promise<void> {
    let first: SvcError | null = null;
    for (const target of targets) {
      const refused = await this.refusal(target);
      if (refused === null) return;
      first ??= refused;
    }
    if (first !== null) throw first;
  }

  /** The same for an attempt, which counts from now on. */
  async enter({ run_id, request, price }: RunContext): Promise<SvcError | null> {
    const refused = await this.refusal(request);
    if (refused !== null || !request.cloud) return refused;
    const tokens = {
      input_tokens: tokensIn(Buffer.byteLength(JSON.stringify(request.messages))),
      output_tokens: request.max_tokens ?? 0,
    };
    this.expected.set(run_id, toUsed(tokens, price ?? this.priceOf(request)));
    return null;
  }

  /** Lets a request for embeddings in. Throws budget_spent and price_unknown. */
  async enterEmbedding(id: string, target: Route, input_tokens: number): Promise<void> {
    const refused = await this.refusal(target);
    if (refused !== null) throw refused;
    if (target.cloud) this.expected.set(id, toUsed({ input_tokens }, this.priceOf(target)));
  }

  /** The log has the request, or it is not sent. */
  leaveEmbedding(id: string): void {
    this.expected.delete(id);
  }

  private priceOf(target: Pick<Route, 'provider' | 'model'>): Price | null {
    return priceOf(target, this.options.config.prices);
  }
}

function toUsed(tokens: Partial<Tokens>, price: Price | null): Used {
  const { input_tokens = 0, output_tokens = 0 } = tokens;
  return { cost: price === null ? 0 : costOf(price, tokens), tokens: input_tokens + output_tokens };
}

export interface BudgetOptions {
  /** Without a daemon there is only a clock: nothing runs, so nothing is expected. */
  kernel: Kernel | (Pick<Kernel, 'clock'> & { subscribe?: undefined });
  store: Pick<EventStore, 'usage'>;
  config: Pick<Config, 'prices' | 'currency' | 'budget_per_day' | 'budget_tokens_per_day'>;
}

const DAY_MS = 24 * HOUR_MS;

function amount(cost: number): string {
  return String(Number(cost.toPrecision(4)));
}
