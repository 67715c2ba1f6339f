import type { BatchItem, BatchingOptions, EvaluationPriority } from 'node-llama-cpp';

/** One run, for as long as it owns its sequence. */
export interface Member {
  /** Identifies its tokens in the queue of the library. */
  readonly priority: EvaluationPriority;
  /** It is never computed with other runs. */
  readonly exact: boolean;
  /** One of its tokens was computed with other runs, or follows tokens that were. */
  batched: boolean;
  /** The number of its sequence in the context. */
  place: number;
}

type Prioritized = { item: BatchItem; processAmount: number }[];

/**
 * Chooses what the context computes next: the tokens that were queued first, with others if
 * possible.
 *
 * 1. A part of a prompt is a batch by itself, so it is rounded as in a run alone.
 * 2. A token of an exact run is a batch by itself. The next tokens of all other runs are one.
 * 3. That batch waits for a run that is between two of its tokens, but never for long: a run that
 *    waits for something else does not stop the others.
 * 4. The tokens of a batch are in the order of their sequences. llama.cpp splits any other batch.
 * 5. A run is `batched` from its first token that shares a batch. Before that it is exact.
 */
export class Batches {
  private readonly members = new Map<number, Member>();
  /** Runs of the last shared batch, whose next token is not queued yet. */
  private expected = new Set<Member>();
  private last = 0;
  private rounds = 0;

  readonly options: BatchingOptions = {
    // The library's default is the next turn of the event loop, for each token.
    dispatchSchedule: (dispatch) => dispatch(),
    itemPrioritizationStrategy: ({ items, size }) => this.next(items, size),
  };

  enter(run: Pick<Member, 'exact' | 'batched'>): Member {
    this.last += 1;
    // The library hands the number on unread to the strategy that it was given.
    const member = { ...run, place: 0, priority: this.last as EvaluationPriority };
    this.members.set(this.last, member);
    return member;
  }

  leave(member: Member): void {
    this.members.delete(member.priority);
    this.expected.delete(member);
  }

  private next(items: readonly BatchItem[], size: number): Prioritized {
    const [first] = items;
    if (first === undefined) return [];
    if (this.sharing(first) === null)
      return [{ item: first, processAmount: Math.min(first.tokens.length, size) }];
    const queued = items.flatMap((item) => {
      const member = this.sharing(item);
      return member === null ? [] : { item, member };
    });
    for (const { member } of queued) this.expected.delete(member);
    if (this.expected.size > 0 && this.rounds < ROUNDS_MAX) {
      this.rounds += 1;
      return [];
    }
    this.rounds = 0;
    const chosen = queued.slice(0, size).sort((a, b) => a.member.place - b.member.place);
    this.expected = new Set(chosen.map(({ member }) => member));
    if (chosen.length > 1) for (const { member } of chosen) member.batched = true;
    return chosen.map(({ item }) => ({ item, processAmount: 1 }));
  }

  /** The run of a token that may share a batch. Null: it may not. */
  private sharing({ tokens, evaluationPriority }: BatchItem): Member | null {
    const member = this.members.get(evaluationPriority);
    return tokens.length === 1 && member?.exact === false ? member : null;
  }
}

/**
 * Rounds that a batch waits for a run between two tokens. A round is a few steps of the microtask
 * queue; a run that was just given its token needs about ten of them to ask for the next one.
 */
const ROUNDS_MAX = 64;
