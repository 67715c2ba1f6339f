import { isIn } from '../../machines/step.ts';
import { stream } from '../../src/kernel/stream.ts';
import type { Life } from './life.ts';
import { hold } from './violation.ts';

/** One for this round, and one for the next. */
const PASSED_MAX = 2;

/**
 * At most a few runs of each other client overtake a waiting run. It compares the queue before
 * and after each step.
 * The log cannot show that: a run that starts at once is written after later ones.
 */
export class Fairness {
  private readonly life: Life;
  /** The queue after the previous step. */
  private waiting: Asker[] = [];
  private active = new Set<string>();
  /** For each waiting run at the head of its client: how many runs of each other client started. */
  private readonly passed = new Map<string, Map<string, number>>();

  constructor(life: Life) {
    this.life = life;
  }

  look(aliasOf: (id: string) => string): void {
    const { scheduler } = this.life;
    const waiting = scheduler.waitingRuns().flatMap((id) => this.of(id) ?? []);
    const still = new Set(waiting.map(({ id }) => id));
    const active = new Set(scheduler.activeRuns());
    for (const id of active) {
      if (this.active.has(id)) continue;
      // A run that killed the engine waits again. Each wait has the bound.
      this.passed.delete(id);
      const begun = this.of(id);
      if (begun?.isFirst !== true) continue;
      for (const head of this.heads(begun)) if (still.has(head)) this.pass(head, begun, aliasOf);
    }
    this.waiting = waiting;
    this.active = active;
  }

  private pass(head: string, { id, client }: Asker, aliasOf: (id: string) => string): void {
    const counts = this.passed.get(head) ?? new Map<string, number>();
    const times = (counts.get(client) ?? 0) + 1;
    this.passed.set(head, counts.set(client, times));
    hold(
      'fair',
      times <= PASSED_MAX,
      () => `${aliasOf(head)} was passed by ${times} runs of ${client}, the last is ${aliasOf(id)}`,
    );
  }

  /** The first run of each other client at the same provider, before this step. */
  private heads({ client, provider }: Asker): string[] {
    const heads = new Map<string, string>();
    for (const other of this.waiting) {
      if (other.provider === provider && other.client !== client && !heads.has(other.client))
        heads.set(other.client, other.id);
    }
    return [...heads.values()];
  }

  private of(id: string): Asker | undefined {
    const snapshot = this.life.kernel.tail(stream.run(id));
    if (snapshot === undefined) return undefined;
    const { client, request, attempt } = snapshot.context;
    return {
      id,
      client,
      provider: request.provider,
      isFirst: attempt === 1 && isIn(snapshot, 'starting'),
    };
  }
}

interface Asker {
  id: string;
  client: string;
  provider: string;
  /** True if its first attempt has just started: suspended runs overtake no one. */
  isFirst: boolean;
}
