import { test } from 'uvu';
import * as assert from 'uvu/assert';
import {
  Decoder,
  newMember,
  type Sample,
} from '../../../src/providers/local/engine/decode/decoder.ts';
import type { TokenSampler } from '../../../src/providers/local/engine/decode/sampler.ts';
import { steps } from '../../../src/providers/local/engine/decode/steps.ts';
import type { Context } from '../../../src/providers/local/engine/native/context.ts';

type Token = Parameters<Decoder['compute']>[2][number];

/** What a decoder asks of a context. */
type Kept = Pick<
  Context,
  | 'initBatch'
  | 'addToBatch'
  | 'decodeBatch'
  | 'removeTokenCellsFromSequence'
  | 'getSequenceKvCacheMinPosition'
  | 'disposeSequence'
  | 'setThreads'
>;

/** A context whose batches end when the test says so. The next token is the position. */
class FakeContext implements Kept {
  /** Of each batch: `sequence at tokens`. */
  readonly batches: string[][] = [];
  readonly threads: number[] = [];
  readonly forgotten: (readonly number[])[] = [];
  keeps = true;
  firstPosition = 0;
  private computing: PromiseWithResolvers<void> | null = null;
  private readonly arrived = new Set<() => void>();

  initBatch(): void {
    this.batches.push([]);
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

  removeTokenCellsFromSequence(...range: [number, number, number]): boolean {
    assert.is(this.computing, null, 'a change beside a batch');
    this.forgotten.push(range);
    return this.keeps;
  }

  getSequenceKvCacheMinPosition(): number {
    return this.firstPosition;
  }

  disposeSequence(sequence: number): void {
    assert.is(this.computing, null, 'a change beside a batch');
    this.forgotten.push([sequence]);
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

function open() {
  const native = new FakeContext();
  const decoder = new Decoder(native as Kept as Context, 3);
  const run = (place: number, exact = false) => {
    const abort = new AbortController();
    const member = newMember({ exact, batched: false, signal: abort.signal });
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
const places = ({ batches }: FakeContext) =>
  batches.slice(1).map(([work]) => Number(work?.split(' ')[0]));

const SAMPLE: Sample<string> = (_, index) => `after ${index}`;

/** An answer to a prompt of 24 tokens, in parts of 8. */
function stepping({ decoder, run }: ReturnType<typeof open>) {
  const { member, abort } = run(0);
  const slot = {
    place: 0,
    tokens: [] as Token[],
    client: 'c',
    parts: [] as number[],
    alone: 0,
    run: '',
    saved: 0,
  };
  const step = { token: 7 as Token, score: null };
  const sampler = { after: () => () => step } as unknown as TokenSampler;
  const prompt = Array<Token>(24).fill(7 as Token);
  const answer = steps(
    { prompt, parts: [24], kept: 0, answered: [] },
    { decoder, member, slot, sampler, batch: 8, goesOn: () => true, signal: abort.signal },
  );
  return { answer, slot, abort };
}

/** Makes the decoder busy with one batch, so that what follows waits in its queue. */
async function busy({ run, native }: ReturnType<typeof open>): Promise<() => Promise<void>> {
  const prompt = run(90).compute(5);
  return async () => {
    await native.end();
    await prompt;
  };
}

test('the next tokens of runs that need not be exact are one batch, and they know it', async () => {
  const opened = open();
  const { run, native } = opened;
  const free = await busy(opened);
  const [one, two] = [run(0), run(1)];
  const asked = [one.compute(), two.compute()];
  await free();
  await native.end();
  assert.equal(await Promise.all(asked), ['after 0', 'after 0']);
  assert.equal(native.batches, [['90 0 5'], ['0 0 1', '1 0 1']]);
  assert.equal([one.member.batched, two.member.batched], [true, true]);
  assert.equal(native.threads, [3, 3]);
});

test('a batch has its tokens in the order of the sequences, so that llama.cpp does not split it', async () => {
  const opened = open();
  const { run, native } = opened;
  const free = await busy(opened);
  const asked = [2, 0, 1].map((place) => run(place).compute());
  await free();
  await native.end();
  await Promise.all(asked);
  assert.equal(native.batches.at(-1), ['0 0 1', '1 0 1', '2 0 1']);
});

test('a token alone stays exact, until another run shares its batch', async () => {
  const { run, native } = open();
  const [one, two] = [run(0), run(1)];
  const first = one.compute();
  await native.end();
  await first;
  assert.not.ok(one.member.batched);
  const both = [one.compute(), two.compute()];
  await native.end();
  await Promise.all(both);
  assert.equal(native.batches, [['0 0 1'], ['0 1 1', '1 0 1']]);
  assert.ok(one.member.batched);
});

test('an exact run is always computed by itself, in its turn', async () => {
  const opened = open();
  const { run, native } = opened;
  const free = await busy(opened);
  const [exact, two, three] = [run(0, true), run(1), run(2)];
  const asked = [two.compute(), exact.compute(), three.compute()];
  await free();
  await native.end();
  await native.end();
  await Promise.all(asked);
  assert.equal(native.batches.slice(1), [['1 0 1', '2 0 1'], ['0 0 1']]);
  assert.not.ok(exact.member.batched);
});

test('a part of a prompt is a batch by itself', async () => {
  const opened = open();
  const { run, native } = opened;
  const free = await busy(opened);
  const [one, two] = [run(0), run(1)];
  const asked = [one.compute(40), two.compute()];
  await free();
  await native.end();
  await native.end();
  assert.equal(await Promise.all(asked), ['after 39', 'after 0']);
  assert.equal(native.batches.slice(1), [['0 0 40'], ['1 0 1']]);
  assert.equal([one.member.batched, two.member.batched], [false, false]);
});

test('of two prompts the shorter one is computed first, and no other one between its parts', async () => {
  const opened = open();
  const { run, native } = opened;
  const free = await busy(opened);
  const asked = [run(0).prompt(3), run(1).prompt(2), run(2).prompt(2)];
  await free();
  for (let part = 0; part < 7; part += 1) await native.end();
  await Promise.all(asked);
  assert.equal(places(native), [1, 1, 2, 2, 0, 0, 0]);
});

test('a long prompt gets every second part after 16 of a stream of short ones', async () => {
  const opened = open();
  const { run, native } = opened;
  const free = await busy(opened);
  const client = async (place: number) => {
    for (let asked = 0; asked < 30; asked += 1) await run(place).prompt(1);
  };
  const asked = [run(0).prompt(4), client(1), client(2)];
  await free();
  for (let part = 0; part < 64; part += 1) await native.end();
  await Promise.all(asked);
  const turns = places(native).flatMap((place, turn) => (place === 0 ? [turn] : []));
  assert.equal(turns, [16, 18, 20, 22]);
});

test('prompts of one length are computed in the order in which they were asked for', async () => {
  const opened = open();
  const { run, native } = opened;
  const free = await busy(opened);
  const asked = [0, 1, 2, 3].map((place) => run(place).prompt(20));
  await free();
  for (let part = 0; part < 80; part += 1) await native.end();
  await Promise.all(asked);
  assert.equal(
    places(native),
    [0, 1, 2, 3].flatMap((place) => Array(20).fill(place)),
  );
});

test('tokens of answers go between the prompts, the ones of exact runs too', async () => {
  const opened = open();
  const { run, native } = opened;
  const free = await busy(opened);
  const prompts = [1, 2, 3, 4].map((place) => run(place).compute(64));
  const tokens = [run(5).compute(), run(6, true).compute(), run(7).compute()];
  await free();
  for (let batch = 0; batch < 6; batch += 1) await native.end();
  await Promise.all([...prompts, ...tokens]);
  assert.equal(native.batches.slice(1), [
    ['1 0 64'],
    ['2 0 64'],
    ['5 0 1', '7 0 1'],
    ['6 0 1'],
    ['3 0 64'],
    ['4 0 64'],
  ]);
});

test('what waits for a run that is cancelled is never computed', async () => {
  const opened = open();
  const { run, native } = opened;
  const free = await busy(opened);
  const [one, two] = [run(0), run(1)];
  const cancelled = one.compute(40).catch((thrown) => thrown);
  const after = two.compute();
  one.abort.abort();
  await free();
  await native.end();
  assert.is(await cancelled, one.abort.signal.reason);
  await after;
  assert.equal(native.batches.slice(1), [['1 0 1']]);
});

test('a run that is cancelled while a part of its prompt waits just ends', async () => {
  const opened = open();
  const { native } = opened;
  const free = await busy(opened);
  const { answer, slot, abort } = stepping(opened);
  const first = answer.next();
  abort.abort();
  await free();
  assert.is((await first).done, true);
  assert.equal([native.batches.length, slot.tokens, slot.parts], [1, [], []]);
});

test('a run that is cancelled while its next token waits just ends', async () => {
  const opened = open();
  const { run, native } = opened;
  const { answer, slot, abort } = stepping(opened);
  const first = answer.next();
  await native.end();
  await native.end();
  const longer = run(1);
  longer.member.left = 99;
  const other = longer.compute(5);
  await native.end();
  assert.is((await first).done, false);
  abort.abort();
  await native.end();
  await other;
  assert.is((await answer.next()).done, true);
  assert.equal(native.batches, [['0 0 8'], ['0 8 8'], ['0 16 8'], ['1 0 5']]);
  assert.equal([slot.tokens.length, slot.parts], [24, [24]]);
});

test('a batch waits for a run between two tokens, and goes on without it after a while', async () => {
  const { run, native } = open();
  const [one, two] = [run(0), run(1)];
  const both = [one.compute(), two.compute()];
  await native.end();
  await both[0];
  // The first of both starts alone: nothing else was asked then.
  await native.end();
  await both[1];
  const again = [one.compute(), two.compute()];
  await native.end();
  await again[0];
  const early = one.compute();
  for (let step = 0; step < 10; step += 1) await null;
  const late = two.compute();
  await native.end();
  await Promise.all([early, late]);
  assert.equal(native.batches.at(-1), ['0 2 1', '1 2 1'], 'it waited');
  const alone = one.compute();
  await native.end();
  await alone;
  assert.equal(native.batches.at(-1), ['0 3 1'], 'it went on');
});

test('a batch does not wait for a run that has left', async () => {
  const opened = open();
  const { run, native, decoder } = opened;
  const free = await busy(opened);
  const [one, two] = [run(0), run(1)];
  const both = [one.compute(), two.compute()];
  await free();
  await native.end();
  await Promise.all(both);
  decoder.leave(two.member);
  // Between two batches it hears messages.
  await new Promise((done) => setImmediate(done));
  const next = one.compute();
  // A batch that waits for a run takes more steps.
  for (let step = 0; step < 10; step += 1) await null;
  assert.equal(native.batches.at(-1), ['0 1 1']);
  await native.end();
  await next;
});

test('a batch that fails is the error of its runs, and the next one is computed', async () => {
  const opened = open();
  const { run, native } = opened;
  const free = await busy(opened);
  const [one, two, other] = [run(0), run(1), run(2, true)];
  const asked = [one.compute(), two.compute()].map((each) => each.catch((thrown) => thrown));
  const after = other.compute();
  await free();
  await native.end(new Error('no memory'));
  assert.equal(
    (await Promise.all(asked)).map((thrown) => (thrown as Error).message),
    ['no memory', 'no memory'],
  );
  assert.equal(one.sequence.tokens, []);
  await native.end();
  assert.is(await after, 'after 0');
});

test('a sample that fails is the error of its run alone', async () => {
  const opened = open();
  const { run, native, decoder } = opened;
  const free = await busy(opened);
  const [one, two] = [run(0), run(1)];
  const fails = decoder.compute(one.member, one.sequence, [7 as Token], () =>
    Promise.reject(new Error('no token')),
  );
  const works = two.compute();
  await free();
  await native.end();
  assert.is(await fails.catch(({ message }) => message), 'no token');
  assert.is(await works, 'after 0');
});

test('a sequence forgets tokens only between two batches', async () => {
  const { run, native, decoder } = open();
  const [one, two] = [run(0), run(1)];
  const prompt = one.compute(5);
  await native.end();
  await prompt;
  const computing = two.compute();
  const kept = decoder.keep(one.sequence, 3);
  assert.equal(native.forgotten, []);
  await native.end();
  await computing;
  assert.is(await kept, 3);
  assert.equal(native.forgotten, [[0, 3, -1]]);
  assert.is(one.sequence.tokens.length, 3);
});

test('a memory that cannot forget a part forgets all', async () => {
  const { run, native, decoder } = open();
  const one = run(4);
  const prompt = one.compute(5);
  await native.end();
  await prompt;
  native.keeps = false;
  assert.is(await decoder.keep(one.sequence, 2), 0);
  assert.equal(native.forgotten, [[4, 2, -1], [4]]);
  assert.equal(one.sequence.tokens, []);
});

test('a sequence that has lost its first tokens goes on, but never back', async () => {
  const { run, native, decoder } = open();
  const one = run(4);
  const prompt = one.compute(5);
  await native.end();
  await prompt;
  native.firstPosition = 2;
  assert.is(await decoder.keep(one.sequence, 5), 5);
  assert.is(await decoder.keep(one.sequence, 4), 0);
  assert.equal(native.forgotten, [[4, 5, -1], [4]]);
});

test.run();
