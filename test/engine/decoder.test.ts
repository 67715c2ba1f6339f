import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { busy, open, stepping, type Token } from '../helpers/fake-decoder.ts';

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

test('each part of a prompt asks for its threads, and says how long it took with them', async () => {
  const { decoder, native, run } = open();
  const wanted = [1, 2];
  const asked: number[] = [];
  decoder.wide = (tokens) => {
    asked.push(tokens);
    return wanted[asked.length - 1] ?? 0;
  };
  const timed: [tokens: number, threads: number][] = [];
  decoder.onParts = (_, tokens, threads) => timed.push([tokens, threads]);
  const { compute, prompt } = run(0);
  const both = prompt(2);
  await native.end();
  await native.end();
  await both;
  const token = compute();
  await native.end();
  await token;
  assert.equal(asked, [8, 8], 'a single token has threads of its own');
  assert.equal(native.threads, [1, 2, 3]);
  assert.equal(timed, [
    [8, 1],
    [8, 2],
  ]);
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
  const { ended, slot, abort } = stepping(opened);
  abort.abort();
  await free();
  assert.is(await ended, null);
  assert.equal([native.batches.length, slot.tokens, slot.parts], [1, [], []]);
});

test('a run that is cancelled while its next token waits just ends', async () => {
  const opened = open();
  const { run, native } = opened;
  const { first, ended, slot, abort } = stepping(opened);
  await native.end();
  await native.end();
  const longer = run(1);
  longer.member.left = 99;
  const other = longer.compute(5);
  await native.end();
  await first;
  abort.abort();
  await native.end();
  await other;
  assert.is(await ended, null);
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
  assert.equal(native.forgotten, [[0, 3]]);
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
  assert.equal(native.forgotten, [[4, 2], [4]]);
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
  assert.equal(native.forgotten, [[4, 5], [4]]);
});

test.run();
test.run();
