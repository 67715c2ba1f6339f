import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Decoder } from '../../src/engine/decode/decoder.ts';
import { type Stateful, States, stateWithin } from '../../src/engine/decode/states.ts';
import type { Context } from '../../src/engine/native/context.ts';
import { makeGguf } from '../fixtures/models/make-gguf.ts';
import { makeLocalProvider, runRequest } from '../helpers/local-provider.ts';

/** Models whose memory cannot go back: their earlier states, kept and restored. */

/** States of 10 bytes each, with room for so many bytes. */
function open(bytesMax: number) {
  const context = {
    stateOf: (_: number, most: number) => (most < 10 ? null : new Uint8Array(10)),
  } as unknown as Context;
  const decoder: Pick<Decoder, 'change'> = { change: async (change) => change(context) };
  const states = new States(decoder, bytesMax);
  const sequence = (place: number): Stateful => ({ place, tokens: [], states: [] });
  const keep = (of: Stateful, tokens: number) => {
    of.tokens.push(...Array(tokens - of.tokens.length).fill(1));
    return states.keep(of);
  };
  const kept = (of: Stateful) => of.states.map(({ tokens }) => tokens);
  return { states, sequence, keep, kept };
}

test('a sequence keeps its four newest states, and finds the newest one of its first tokens', async () => {
  const { sequence, keep, kept } = open(1000);
  const one = sequence(0);
  for (const tokens of [0, 10, 20, 20, 30, 40, 50]) await keep(one, tokens);
  assert.equal(kept(one), [20, 30, 40, 50]);
  assert.is(stateWithin(one, 45)?.tokens, 40);
  assert.is(stateWithin(one, 50)?.tokens, 50);
  assert.is(stateWithin(one, 19), undefined);
});

test('the oldest state of all sequences makes room, and one that is too large is not kept', async () => {
  const { states, sequence, keep, kept } = open(30);
  const [one, two] = [sequence(0), sequence(1)];
  await keep(one, 10);
  await keep(two, 10);
  await keep(one, 20);
  await keep(two, 20);
  assert.equal([kept(one), kept(two)], [[20], [10, 20]]);
  states.cut(two, 15);
  assert.equal(kept(two), [10], 'its tokens after them changed');
  await keep(one, 30);
  assert.equal([kept(one), kept(two)], [[20, 30], [10]], 'what was cut has left room');
  const small = open(9);
  const large = small.sequence(0);
  await small.keep(large, 10);
  assert.equal(small.kept(large), []);
});

const local = makeLocalProvider({ batching: true });
test.after(() => local.close());
let runs = 0;

/** An answer of 24 tokens, with how many tokens of its prompt were reused. */
async function ask(model: string, client: string, prompt: string, seed_asked = true) {
  runs += 1;
  const request = runRequest({ model, prompt, seed_asked, temperature: 0, max_tokens: 24 });
  const stream = local.provider.stream(
    { run_id: `run_${runs}`, client, attempt: 1, request, resume: null },
    new AbortController().signal,
  );
  const token_ids: number[] = [];
  let cached = 0;
  for await (const part of stream)
    if (part.type === 'output') token_ids.push(...part.token_ids);
    else if (part.type === 'finish') cached = part.usage.cached_tokens ?? 0;
  return { token_ids, cached };
}

for (const architecture of ['lfm2', 'mamba'])
  test(`a ${architecture} model goes back to an earlier state, and answers the same`, async () => {
    const model = makeGguf(join(local.folder, `${architecture}.gguf`), {
      architecture,
      context: 1024,
      template: null,
    });
    const beginning = 'What was said before. '.repeat(13);
    const prompts = [`${beginning}And now?`, `${beginning}And now?`, `${beginning}Or never!`];
    const alone: number[][] = [];
    for (const [at, prompt] of prompts.entries()) {
      const { token_ids, cached } = await ask(model, `${architecture} ${at}`, prompt);
      assert.equal([token_ids.length, cached], [24, 0]);
      alone.push(token_ids);
    }
    assert.not.equal(alone[2], alone[0]);
    for (const seed_asked of [true, false])
      for (const [at, prompt] of prompts.entries()) {
        const client = `${architecture} ${seed_asked}`;
        const { token_ids, cached } = await ask(model, client, prompt, seed_asked);
        assert.equal(token_ids, alone[at], `prompt ${at}`);
        assert.is(cached, at === 0 ? 0 : 256, 'two whole batches of the prompt');
      }
  });

test.run();
