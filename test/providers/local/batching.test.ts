import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Resume } from '../../../src/ports/providers.ts';
import { makeGguf } from '../../fixtures/models/make-gguf.ts';
import { makeLocalProvider, runRequest } from '../../helpers/local-provider.ts';
import { waitFor } from '../../helpers/wait.ts';

/** The engine computes runs in one batch unless they have to be exact. */

const local = makeLocalProvider({ batching: true });
const model = makeGguf(join(local.folder, 'made.gguf'), { width: 96, layers: 3, context: 1024 });
test.after(() => local.close());

let runs = 0;
async function ask(seed_asked: boolean, seed: number, resume: Partial<Resume> | null = null) {
  runs += 1;
  const heard = { token_ids: [] as number[], text: '', batched: false };
  const request = runRequest({ model, seed_asked, seed, temperature: 0.8, max_tokens: 100 });
  const whole = {
    text: '',
    parts: [],
    token_ids: [],
    threads: null,
    batched: false,
    model_file: null,
  };
  const stream = local.provider.stream(
    {
      // Nothing is reused of another client.
      run_id: `run_${runs}`,
      client: `client ${runs}`,
      attempt: 1,
      request,
      resume: resume === null ? null : { ...whole, ...resume },
    },
    new AbortController().signal,
  );
  for await (const part of stream)
    if (part.type === 'output') {
      heard.token_ids.push(...part.token_ids);
      heard.text += part.text;
      heard.batched ||= part.batched === true;
    }
  return heard;
}

test('runs without a seed are computed together, and their output says it', async () => {
  const answers = await Promise.all([ask(false, 1), ask(false, 2), ask(false, 3)]);
  assert.equal(
    answers.map(({ batched }) => batched),
    [true, true, true],
  );
  assert.ok(answers.every(({ token_ids }) => token_ids.length === 100));
});

test('a run with a seed has the same answer alone and beside others, and is never batched', async () => {
  const alone = await ask(true, 5);
  const [beside] = await Promise.all([ask(true, 5), ask(false, 2), ask(false, 3)]);
  assert.equal(beside, { ...alone, batched: false });
});

test('a model that two of its kind have room for answers eight runs at one time', async () => {
  const answers = await Promise.all(Array.from({ length: 8 }, (_, seed) => ask(false, seed)));
  assert.is(local.engine.snapshot().context.info?.parallel, 8);
  assert.ok(answers.every(({ token_ids }) => token_ids.length === 100));
});

test('a first load measures threads and batches, even next to a damaged file of measurements', async () => {
  const auto = makeLocalProvider({ batching: 'auto', threads: null, limits: { local_runs: 6 } });
  writeFileSync(join(auto.folder, 'engine-threads.json'), '{"threads": {"cut');
  try {
    await auto.models.load(model, 60_000, new AbortController().signal);
    const isPrinted = (text: string) => auto.printed.some((line) => line.includes(text));
    for (const kind of ['', ' together'])
      await waitFor('it is printed', () => isPrinted(`threads${kind} `));
    const said = /runs are computed (in one batch|one by one): 6 together have (\d+) percent/;
    const line = await waitFor('the gain is printed', () =>
      auto.printed.map((each) => said.exec(each)).find((found) => found !== null),
    );
    const [, how, gain] = line as RegExpExecArray;
    assert.is(how, Number(gain) >= 115 ? 'in one batch' : 'one by one');
  } finally {
    await auto.close();
  }
});

test('one answer alone is exact, also without a seed', async () => {
  assert.equal(await ask(false, 5), { ...(await ask(true, 5)), batched: false });
});

test('an answer that was exact so far continues identically beside others', async () => {
  const whole = await ask(true, 6);
  const cut = { text: '', token_ids: whole.token_ids.slice(0, 40), batched: false };
  const [rest] = await Promise.all([ask(false, 6, cut), ask(false, 2), ask(false, 3)]);
  assert.equal([...cut.token_ids, ...rest.token_ids], whole.token_ids);
  assert.not.ok(rest.batched);
});

test('an answer that was computed with others stays so after it continues, also alone', async () => {
  const whole = await ask(true, 6);
  const rest = await ask(false, 6, { token_ids: whole.token_ids.slice(0, 40), batched: true });
  assert.is(rest.token_ids.length, 60);
  assert.ok(rest.batched);
});

test.run();
