import { hash } from 'node:crypto';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { OutputPart } from '../../../src/ports/providers.ts';
import { makeGguf } from '../../fixtures/models/make-gguf.ts';
import { failure } from '../../helpers/failure.ts';
import { makeLocalProvider, readAnswer, runRequest } from '../../helpers/local-provider.ts';

/**
 * A cut answer continues exactly where it ended, in an engine that did not compute its beginning.
 */

const LONG = { prompt: 'How do I start it? 日本語 🙂 and then?', max_tokens: 64, seed: 11 };

/** Half of the context of the model. */
const TOKENS_MAX = 512;

/** Each of the first cuts, where a state can be wrong, and some of those that repeat them. */
const CUTS_EACH = 6;
const CUTS_EVERY = 12;

/** The rest of an answer after its first `cut` tokens, from a separate engine. */
async function goOn(
  engine: ReturnType<typeof makeLocalProvider>,
  request: Parameters<typeof runRequest>[0],
  cut: { text: string; token_ids: number[]; threads?: number; model_file?: string | null },
) {
  const heard = {
    text: '',
    token_ids: [] as number[],
    finish: null as Extract<OutputPart, { type: 'finish' }> | null,
  };
  const resume = { threads: null, batched: false, parts: [], model_file: null, ...cut };
  const stream = engine.provider.stream(
    { run_id: 'run_again', attempt: 2, request: runRequest(request), resume },
    new AbortController().signal,
  );
  for await (const part of stream) {
    if (part.type === 'finish') heard.finish = part;
    else {
      heard.text += part.text;
      heard.token_ids.push(...part.token_ids);
    }
  }
  return heard;
}

/** The possible cuts: after each part that the engine sent. */
function cutsOf(parts: readonly OutputPart[]): { text: string; token_ids: number[] }[] {
  const cuts: { text: string; token_ids: number[] }[] = [];
  let [text, token_ids] = ['', [] as number[]];
  for (const part of parts) {
    if (part.type !== 'output') continue;
    text += part.text;
    token_ids = [...token_ids, ...part.token_ids];
    cuts.push({ text, token_ids });
  }
  return cuts;
}

/**
 * Random weights answer gibberish with characters split over tokens: harder than any real answer.
 */
function withRandomModel(threads = 1): ReturnType<typeof makeLocalProvider> {
  const local = makeLocalProvider({ model: 'random', threads });
  makeGguf(join(local.folder, 'random.gguf'), { context: 1024 });
  return local;
}

/** The engines that begin and continue most answers. */
const [first, second] = [withRandomModel(), withRandomModel()];
test.after(() => Promise.all([first.close(), second.close()]).then(() => {}));

for (const [model, temperature, least] of [
  ['svc-mini', 0, 1],
  ['random', 0, 2],
  ['random', 0.8, 2],
  ['random', 1.5, 2],
] as const) {
  test(`an answer of ${model} continues the same after every cut, at temperature ${temperature}`, async () => {
    let request = { ...LONG, model, temperature };
    let whole = await readAnswer(first, request);
    // What a fast machine computes comes in one part. A longer answer has more of them.
    while (cutsOf(whole.parts).length < least && request.max_tokens < TOKENS_MAX) {
      request = { ...request, max_tokens: 2 * request.max_tokens };
      whole = await readAnswer(first, request);
    }
    const cuts = cutsOf(whole.parts);
    assert.ok(cuts.length >= least, `${cuts.length} cuts`);
    for (const [index, cut] of cuts.entries()) {
      if (index >= CUTS_EACH && index % CUTS_EVERY !== 0) continue;
      const rest = await goOn(second, request, cut);
      assert.equal(
        [...cut.token_ids, ...rest.token_ids],
        whole.token_ids,
        `cut after ${cut.token_ids.length} tokens`,
      );
      assert.is(cut.text + rest.text, whole.text);
      assert.equal(rest.finish?.finish_reason, whole.finish?.finish_reason);
      assert.equal(rest.finish?.usage, whole.finish?.usage);
    }
  });
}

test('an answer continues with its number of threads, even when the thread file is gone', async () => {
  // The other engine has another folder, so that threads would be measured again.
  const wide = withRandomModel(2);
  try {
    // Two threads wait for each other at each token: on a busy machine that takes long.
    const request = { ...LONG, model: 'random', temperature: 0.8, max_tokens: 12 };
    const whole = await readAnswer(wide, request);
    const threadCounts = whole.parts.flatMap((part) =>
      part.type === 'output' ? [part.threads] : [],
    );
    assert.ok(
      threadCounts.length > 0 && threadCounts.every((threads) => threads === 2),
      'each part says by how many it was computed',
    );
    await readAnswer(second, { ...request, max_tokens: 2 });
    assert.is(second.engine.snapshot().context.info?.threads, 1);
    const cuts = cutsOf(whole.parts);
    const cut = cuts[Math.floor(cuts.length / 2)];
    assert.ok(cut !== undefined);
    const rest = await goOn(second, request, { ...cut, threads: 2 });
    assert.is(second.engine.snapshot().context.info?.threads, 2);
    assert.equal([...cut.token_ids, ...rest.token_ids], whole.token_ids);
    assert.is(cut.text + rest.text, whole.text);
    const again = await readAnswer(second, { ...request, max_tokens: 2 });
    assert.equal(
      [again.token_ids.length, second.engine.snapshot().context.info?.threads],
      [2, 2],
      'other runs take what is loaded',
    );
    const beyond = await goOn(
      second,
      { ...request, max_tokens: cut.token_ids.length + 2 },
      { ...cut, threads: 4096 },
    );
    assert.equal(
      [beyond.token_ids.length, second.engine.snapshot().context.info?.threads],
      [2, 2],
      'no machine has that many',
    );
  } finally {
    await wide.close();
  }
});

test('an answer continues only with the file that computed its beginning', async () => {
  const engine = makeLocalProvider({ model: 'random' });
  const path = makeGguf(join(engine.folder, 'random.gguf'), { context: 1024 });
  const file = readFileSync(path);
  try {
    const request = { ...LONG, model: 'random', max_tokens: 24 };
    const whole = await readAnswer(engine, request);
    const model_file = `sha256:${hash('sha256', file)}`;
    for (const part of whole.parts)
      if (part.type === 'output') assert.is(part.model_file, model_file);
    const [first] = cutsOf(whole.parts);
    assert.ok(first !== undefined);
    const cut = { ...first, model_file };
    rmSync(path);
    makeGguf(path, { context: 1024, seed: 5 });
    const rest = await goOn(engine, request, cut);
    assert.is(cut.text + rest.text, whole.text, 'the file in memory is still that one');
    await engine.models.unload('random');
    const failed = await failure(goOn(engine, request, cut));
    assert.is(failed.code, 'model_changed');
    assert.match(failed.message, `file, template or adapter of random: ${model_file.slice(0, 19)}`);
    assert.is(engine.state(), 'cold', 'nothing is loaded for it');
    writeFileSync(path, file);
    const again = await goOn(engine, request, cut);
    assert.is(cut.text + again.text, whole.text, 'the name and the time do not matter');
  } finally {
    await engine.close();
  }
});

test('an answer does not continue when its recorded tokens do not spell its recorded text', async () => {
  for (const cut of [
    { text: 'Something else.', token_ids: [300, 301] },
    { text: '', token_ids: [1_000_000] },
  ])
    assert.is((await failure(goOn(first, LONG, cut))).code, 'resume_failed');
  assert.match(first.state(), /^warm/, 'the engine lives');
});

test.run();
