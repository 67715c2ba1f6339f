import * as assert from 'uvu/assert';
import { Decoder, newMember, type Sample } from '../../src/engine/decode/decoder.ts';
import type { TokenSampler } from '../../src/engine/decode/sampler.ts';
import { steps } from '../../src/engine/decode/steps.ts';
import type { Context } from '../../src/engine/native/context.ts';
import type { StopAt } from '../../src/engine/native/stop-flags.ts';

/** A decoder with a context that computes nothing. */

export type Token = Parameters<Decoder['compute']>[2][number];

/** The part of a context that a decoder uses. */
type Kept = Pick<
  Context,
  'initBatch' | 'addToBatch' | 'decodeBatch' | 'forget' | 'firstPositionOf' | 'setThreads'
>;

/** A context whose batches end when the test says so. The next token is the position. */
export class FakeContext implements Kept {
  /** Of each batch: `sequence at tokens`. */
  readonly batches: string[][] = [];
  /** What ends each batch. */
  readonly stops: (StopAt | null)[] = [];
  readonly threads: number[] = [];
  readonly forgotten: [sequence: number, from?: number][] = [];
  keeps = true;
  firstPosition = 0;
  private computing: PromiseWithResolvers<void> | null = null;
  private readonly arrived = new Set<() => void>();

  initBatch(stopAt: StopAt | null = null): void {
    this.batches.push([]);
    this.stops.push(stopAt);
  }

  addToBatch(sequence: number, at: number, tokens: readonly number[], wanted: number[]): number[] {
    this.batches.at(-1)?.push(`${sequence} ${at} ${tokens.length}`);
    return wanted;
  }

  decodeBatch(): Promise<void> {
    assert.is(this.computing, null, 'two batches at one time');
    this.computing = Promise.withResolvers();
    for (const hear of this.arrived) hear();
    return this.computing.promise;
  }

  forget(...range: [sequence: number, from?: number]): boolean {
    assert.is(this.computing, null, 'a change beside a batch');
    this.forgotten.push(range);
    return this.keeps;
  }

  firstPositionOf(): number {
    return this.firstPosition;
  }

  setThreads(threads: number): void {
    this.threads.push(threads);
  }

  /** Ends the batch in progress, or the next one. */
  async end(thrown?: Error): Promise<void> {
    if (this.computing === null)
      await new Promise<void>((done) => {
        this.arrived.add(done);
      });
    this.arrived.clear();
    const { computing } = this;
    this.computing = null;
    if (thrown === undefined) computing?.resolve();
    else computing?.reject(thrown);
  }
}

/** `size`: tokens of several prompts in one batch. */
export function open(size = 8) {
  const native = new FakeContext();
  const decoder = new Decoder(native as Kept as Context, 3, size);
  const run = (place: number, exact = false) => {
    const abort = new AbortController();
    const flag = 100 + place;
    const member = newMember({ exact, batched: false, signal: abort.signal, flag });
    const sequence = { place, tokens: [] as Token[] };
    const compute = (tokens = 1) =>
      decoder.compute(member, sequence, Array(tokens).fill(7 as Token), SAMPLE);
    /** A prompt in parts of 8 tokens. */
    const prompt = async (parts: number) => {
      for (member.left = parts * 8; member.left > 0; member.left -= 8) await compute(8);
    };
    return { member, sequence, compute, prompt, abort };
  };
  return { native, decoder, run };
}

/** The sequences of the batches after the first one. */
export const places = ({ batches }: FakeContext) =>
  batches.slice(1).map(([work]) => Number(work?.split(' ')[0]));

const SAMPLE: Sample<string> = (_, index) => `after ${index}`;

/** A sequence that has computed nothing. */
export const emptySlot = () => ({
  place: 0,
  tokens: [] as Token[],
  client: '',
  parts: [] as number[],
  alone: 0,
  run: '',
  saved: 0,
  states: [],
});

/** An answer to a prompt of 24 tokens, in parts of 8. `first`: when its first token is taken. */
export function stepping({ decoder, run }: ReturnType<typeof open>) {
  const { member, abort } = run(0);
  const slot = emptySlot();
  const step = { token: 7 as Token, score: null };
  const sampler = { after: () => () => step } as unknown as TokenSampler;
  const prompt = Array<Token>(24).fill(7 as Token);
  const { promise: first, resolve } = Promise.withResolvers<void>();
  const take = () => {
    resolve();
    return null;
  };
  const { signal } = abort;
  const ended = steps(
    { prompt, parts: [24], kept: 0, answered: [] },
    { decoder, member, slot, sampler, batch: 8, states: null, drafts: null, take, signal },
  );
  return { first, ended, slot, abort };
}

/** Makes the decoder busy with one batch, so that what follows waits in its queue. */
export async function busy({ run, native }: ReturnType<typeof open>): Promise<() => Promise<void>> {
  const prompt = run(90).compute(5);
  return async () => {
    await native.end();
    await prompt;
  };
}
