import type { Context } from '../native/context.ts';
import type { Decoder, Sequence } from './decoder.ts';

/** The state of a sequence after its first tokens. */
export interface State {
  readonly tokens: number;
  readonly bytes: Uint8Array;
}

/** A sequence with its earlier states, the oldest first. */
export interface Stateful extends Sequence {
  states: State[];
}

/**
 * Earlier states of sequences, for models whose memory cannot go back: recurrent ones, and hybrid
 * ones, which have attention too. llama.cpp has only the state after the last token of those.
 *
 * 1. A state is of the first tokens of its sequence. It goes when they change.
 * 2. All of them have at most `bytesMax`, and a sequence has at most `STATES_MAX`. The oldest one
 *    makes room.
 */
export class States {
  private readonly decoder: Pick<Decoder, 'change'>;
  private readonly bytesMax: number;
  /** The oldest first. */
  private kept: { sequence: Stateful; state: State }[] = [];

  constructor(decoder: Pick<Decoder, 'change'>, bytesMax = BYTES_MAX) {
    this.decoder = decoder;
    this.bytesMax = bytesMax;
  }

  /** Keeps the state after the present tokens of the sequence. */
  async keep(sequence: Stateful): Promise<void> {
    const tokens = sequence.tokens.length;
    if (tokens === 0 || sequence.states.some((state) => state.tokens === tokens)) return;
    const bytes = await this.decoder.change((context: Context) =>
      context.stateOf(sequence.place, this.bytesMax),
    );
    if (bytes === null) return;
    const state = { tokens, bytes };
    this.kept.push({ sequence, state });
    sequence.states.push(state);
    const [first] = sequence.states;
    if (sequence.states.length > STATES_MAX && first !== undefined) this.forget(sequence, [first]);
    while (this.bytes > this.bytesMax && this.kept[0] !== undefined)
      this.forget(this.kept[0].sequence, [this.kept[0].state]);
  }

  /** Forgets the states after more tokens than these. */
  cut(sequence: Stateful, tokens: number): void {
    this.forget(
      sequence,
      sequence.states.filter((state) => state.tokens > tokens),
    );
  }

  private get bytes(): number {
    return this.kept.reduce((sum, { state }) => sum + state.bytes.length, 0);
  }

  private forget(sequence: Stateful, gone: readonly State[]): void {
    sequence.states = sequence.states.filter((state) => !gone.includes(state));
    this.kept = this.kept.filter(({ state }) => !gone.includes(state));
  }
}

/** The newest state within the first tokens. */
export function stateWithin({ states }: { states?: readonly State[] }, tokens: number) {
  return states?.findLast((state) => state.tokens <= tokens);
}

/** The states of models have 1 to 80 MB. */
const BYTES_MAX = 256 * 1024 * 1024;
const STATES_MAX = 4;
