import { arrive, emptyQueue, type FairQueue, leave, serve } from '../../../machines/fair-queue.ts';

/** A run that waits at a provider. */
export interface WaitingRun {
  run_id: string;
  provider: string;
  /** Name of the token that started it. Null: the home did. */
  asker: string | null;
  client: string;
}

type Placed<R> = R & {
  /** Of its asker at the provider. */
  round: number;
  /** Of its client among those of its asker. */
  turn: number;
  /** Counts the runs that entered the queue: the order within a round. */
  arrival: number;
};

/**
 * The waiting runs, in the order in which they are served.
 *
 * 1. The askers at a provider are served in rounds: the home, and each token. The rounds of each
 *    provider advance independently.
 * 2. The clients of one asker take turns in its rounds. A long backlog delays no other asker,
 *    whatever names its clients have.
 * 3. Some runs go before all others, in the order of their arrival.
 */
export class WaitingRuns<R extends WaitingRun> {
  private runs: Placed<R>[] = [];
  private readonly rounds = new Map<string, FairQueue>();
  /** By asker and provider. */
  private readonly turns = new Map<string, FairQueue>();
  private arrivals = 0;

  get list(): readonly R[] {
    return this.runs;
  }

  get size(): number {
    return this.runs.length;
  }

  /** Whether it goes before all others. */
  isFirst(run: R): boolean {
    return (run as Placed<R>).round === BEFORE_ALL;
  }

  /** 1 is the next one. Null: it does not wait. */
  position(run_id: string): number | null {
    const index = this.runs.findIndex((run) => run.run_id === run_id);
    return index < 0 ? null : index + 1;
  }

  add(run: R, how: 'fair' | 'first'): void {
    const place = how === 'fair' ? this.arrive(run) : { round: BEFORE_ALL, turn: 0 };
    this.arrivals += 1;
    this.runs.push({ ...run, ...place, arrival: this.arrivals });
    this.deal(run, this.roundsOf(run));
  }

  /** Takes out runs that are served. */
  serve(started: ReadonlySet<string>): void {
    for (const run of this.runs) {
      if (!started.has(run.run_id)) continue;
      this.rounds.set(run.provider, serve(this.roundsAt(run.provider), run.round));
      this.turns.set(placeOf(run), serve(this.turnsOf(run), run.turn));
    }
    this.runs = this.runs.filter(({ run_id }) => !started.has(run_id));
    this.forgetTurns();
  }

  /** Takes out a run that is not served. False if it does not wait. */
  remove(run_id: string): boolean {
    const gone = this.runs.find((run) => run.run_id === run_id);
    if (gone === undefined) return false;
    const rounds = this.roundsOf(gone).sort((a, b) => a - b);
    this.runs = this.runs.filter((run) => run !== gone);
    if (gone.round === BEFORE_ALL) return true;
    const { provider, asker, client, turn } = gone;
    this.rounds.set(provider, leave(this.roundsAt(provider), asker ?? ''));
    this.turns.set(placeOf(gone), leave(this.turnsOf(gone), client));
    for (const later of this.runsOfAsker(gone))
      if (later.client === client && later.turn > turn) later.turn -= 1;
    this.deal(gone, rounds.slice(0, -1));
    return true;
  }

  /** At an idle provider a run joins the furthest round of all providers. */
  private arrive(run: R): { round: number; turn: number } {
    const { provider, asker, client } = run;
    const { round, next } = this.roundsAt(provider);
    const isIdle = !this.runs.some((other) => other.provider === provider);
    const furthest = isIdle
      ? Math.max(round, ...[...this.rounds.values()].map((rounds) => rounds.round))
      : round;
    const ofAsker = arrive({ round: furthest, next }, asker ?? '');
    const ofClient = arrive(this.turnsOf(run), client);
    this.rounds.set(provider, ofAsker.queue);
    this.turns.set(placeOf(run), ofClient.queue);
    return { round: ofAsker.at, turn: ofClient.at };
  }

  /** Gives these rounds to the runs of the asker, in the order of the turns of its clients. */
  private deal(run: R, rounds: number[]): void {
    rounds.sort((a, b) => a - b);
    const own = this.runsOfAsker(run).sort((a, b) => a.turn - b.turn || a.arrival - b.arrival);
    for (const [index, one] of own.entries()) one.round = rounds[index] ?? one.round;
    this.runs.sort((a, b) => a.round - b.round || a.arrival - b.arrival);
  }

  private roundsOf(run: R): number[] {
    return this.runsOfAsker(run).map(({ round }) => round);
  }

  private runsOfAsker(run: R): Placed<R>[] {
    const place = placeOf(run);
    return this.runs.filter((one) => one.round !== BEFORE_ALL && placeOf(one) === place);
  }

  private roundsAt(provider: string): FairQueue {
    return this.rounds.get(provider) ?? emptyQueue;
  }

  private turnsOf(run: R): FairQueue {
    return this.turns.get(placeOf(run)) ?? emptyQueue;
  }

  /**
   * A client chooses its name, so above a number the clients without a waiting run are forgotten.
   */
  private forgetTurns(): void {
    for (const [place, { round, next }] of this.turns) {
      if (next.size <= this.runs.length + CLIENTS_MAX) continue;
      const waits = new Set(this.runs.flatMap((run) => (placeOf(run) === place ? run.client : [])));
      const kept = [...next].filter(([client]) => waits.has(client));
      this.turns.set(place, { round, next: new Map(kept) });
    }
  }
}

/** An asker at a provider. The name of a token has no space. */
function placeOf({ provider, asker }: WaitingRun): string {
  return `${asker ?? ''} ${provider}`;
}

/** How many clients without a waiting run are remembered. */
const CLIENTS_MAX = 256;
/** The round of a run that goes before all others. */
const BEFORE_ALL = -1;
