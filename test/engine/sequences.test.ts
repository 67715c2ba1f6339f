import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type Reuse, Sequences, type Slot } from '../../src/engine/decode/sequences.ts';
import { States } from '../../src/engine/decode/states.ts';
import type { Token } from '../../src/engine/native/model.ts';

const SHARES: Reuse = { client: 'a', repeatable: false, shares: true };
const EXACT: Reuse = { client: 'a', repeatable: true, shares: false };

function open(parallel = 8, states: States | null = null) {
  const decoder = {
    keep: async (sequence: { tokens: Token[] }, kept: number) => (sequence.tokens.length = kept),
  };
  return new Sequences({ decoder, parallel, batch: 128, states });
}

/** A run with a prompt of `tokens` and no answer. */
function finish(sequences: Sequences, slot: Slot, tokens: readonly Token[]): void {
  slot.client = SHARES.client;
  slot.tokens.push(...tokens);
  slot.parts = [tokens.length];
  sequences.leave(slot, { shared: true, failed: false });
}

const promptOf = (length: number, from = 1) =>
  Array.from({ length }, (_, at) => (from + at) as Token);

test('runs that share batches get sequences side by side', () => {
  const sequences = open();
  const take = () => sequences.take(promptOf(4), SHARES).slot;
  const slots = Array.from({ length: 8 }, take);
  assert.equal(
    slots.map(({ place }) => place),
    [0, 1, 2, 3, 4, 5, 6, 7],
  );
  // All end but one in the middle.
  for (const place of [0, 7, 1, 6, 2, 5, 4])
    finish(sequences, slots[place] as Slot, promptOf(4, 100 * (place + 1)));
  const places = [take(), take(), take()].map(({ place }) => place);
  assert.equal(places, [2, 1, 0], 'with the run at 3 they have no gap');
});

test('a place between two runs is better than one beside a run', () => {
  const sequences = open(4);
  const slots = Array.from({ length: 4 }, () => sequences.take(promptOf(4), SHARES).slot);
  finish(sequences, slots[3] as Slot, promptOf(4, 50));
  finish(sequences, slots[1] as Slot, promptOf(4, 60));
  assert.is(sequences.take(promptOf(4), SHARES).slot.place, 1);
});

test('the prompt of a long conversation is worth more than a place beside a run', () => {
  const sequences = open();
  const slots = Array.from({ length: 8 }, () => sequences.take(promptOf(4), SHARES).slot);
  const conversation = promptOf(200, 1000);
  for (const slot of slots.slice(1))
    finish(sequences, slot, slot.place === 6 ? conversation : promptOf(4, 100 * slot.place));
  const { slot, kept } = sequences.take([...conversation, 7 as Token], SHARES);
  assert.is(slot.place, 6);
  assert.is(kept, 200);
});

test('a run that is computed by itself gets the sequence that was left first', () => {
  const alone = open(4);
  const run = alone.take(promptOf(4), SHARES).slot;
  const other = alone.take(promptOf(4), EXACT).slot;
  assert.equal([run.place, other.place], [0, 1]);
  finish(alone, run, promptOf(4, 9));
  assert.is(alone.take(promptOf(4), EXACT).slot.place, 2);
  assert.is(alone.take(promptOf(4), SHARES).slot.place, 3, 'nothing is shared beside it any more');
});

test('a sequence that cannot go back is reused whole, by a prompt that begins with all of it', () => {
  const turn = promptOf(200, 1000);
  const keptFor = (prompt: readonly Token[], reuse = SHARES) => {
    const sequences = open(2, new States({ change: () => Promise.reject(new Error()) }));
    const { slot } = sequences.take(turn, SHARES);
    finish(sequences, slot, turn);
    const taken = sequences.take(prompt, reuse);
    return [taken.kept, taken.kept === 0 || taken.slot === slot];
  };
  assert.equal(keptFor([...turn, 7 as Token]), [200, true]);
  assert.equal(keptFor([...turn.slice(0, 199), 7 as Token, 8 as Token]), [0, true], 'it differs');
  assert.equal(keptFor(turn), [0, true], 'the last token is computed in any case');
  assert.equal(keptFor([...turn, 7 as Token], EXACT), [0, true], 'the last batch was not whole');
});

test.run();
