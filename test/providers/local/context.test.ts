import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeGguf } from '../../fixtures/models/make-gguf.ts';
import { failure } from '../../helpers/failure.ts';
import { makeLocalProvider, readAnswer } from '../../helpers/local-provider.ts';

/** A run may need a larger context than the usual one. */
const local = makeLocalProvider({
  limits: { engine_context_tokens: 256, local_runs: 1 },
  budget_bytes: 300 * 1024 * 1024,
});
makeGguf(join(local.models_folder, 'small.gguf'), { context: 2048 });
makeGguf(join(local.models_folder, 'long.gguf'), { context: 1_000_000 });
test.after(() => local.close());

const ask = async (model: string, context_tokens?: number) => {
  const wish = context_tokens === undefined ? {} : { context_tokens };
  const { finish } = await readAnswer(local, { model, max_tokens: 2, ...wish });
  const { attempt, info } = local.engine.snapshot().context;
  return { loads: attempt, context: info?.context_length, loaded: finish?.load_ms !== undefined };
};

test('a larger context loads the model again, and stays for runs that need less', async () => {
  assert.equal(await ask('small'), { loads: 1, context: 256, loaded: true });
  assert.equal(await ask('small', 256), { loads: 1, context: 256, loaded: false });
  assert.equal(await ask('small', 1024), { loads: 2, context: 1024, loaded: true });
  assert.equal(await ask('small', 512), { loads: 2, context: 1024, loaded: false });
  assert.equal(await ask('small'), { loads: 2, context: 1024, loaded: false });
});

test('the context of the model is the upper bound, and is not loaded for twice', async () => {
  assert.equal(await ask('small', 500_000), { loads: 3, context: 2048, loaded: true });
  assert.equal(await ask('small', 500_000), { loads: 3, context: 2048, loaded: false });
});

test('one that memory has no room for is refused, and the model still answers', async () => {
  const refused = await failure(ask('long', 1_000_000));
  assert.is(refused.code, 'model_too_large');
  assert.match(refused.message, /models_memory_bytes/);
  assert.is((await ask('long')).context, 256);
});

test.run();
