import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type GgufOptions, makeGguf } from '../../fixtures/models/make-gguf.ts';
import { failure } from '../../helpers/failure.ts';
import { type LocalHarness, makeLocalProvider, readAnswer } from '../../helpers/local-provider.ts';

/** A smaller model that guesses the tokens of a local model. */

let local: LocalHarness;
let draft: string;
test.before.each(() => {
  draft = 'small';
  local = makeLocalProvider({
    batching: true,
    library: { drafts: () => [{ model: 'large', value: draft }] },
  });
  make('large', { layers: 8 });
});
test.after.each(() => local.close());

const WORDS = Array.from({ length: 40 }, (_, at) => String.fromCodePoint(0x3041 + at));

/** A model that says these words, whatever it is asked. */
function make(name: string, options: GgufOptions): void {
  makeGguf(join(local.folder, `${name}.gguf`), {
    width: 128,
    pieces: WORDS,
    says: WORDS,
    ...options,
  });
}

const ask = (seed_asked: boolean) =>
  readAnswer(local, { model: 'large', max_tokens: 60, seed_asked });

test('a model answers with the guesses of its draft model as without them', async () => {
  make('small', { layers: 1, seed: 1 });
  const [alone, guessed] = [await ask(true), await ask(false)];
  assert.is(alone.text, WORDS.join(''));
  assert.equal(guessed.token_ids, alone.token_ids);
  const { drafted_tokens = 0, accepted_tokens = 0 } = guessed.finish?.usage ?? {};
  assert.ok(accepted_tokens > 20 && drafted_tokens >= accepted_tokens, `${accepted_tokens}`);
  assert.is(alone.finish?.usage.drafted_tokens, undefined);
});

test('it is shown with the model, and why it does not fit', async () => {
  const shown = async () => (await local.models.show('large')).draft;
  assert.equal(await shown(), { model: 'small', problem: 'it is not there' });
  make('small', { layers: 1, seed: 1 });
  assert.equal(await shown(), { model: 'small', problem: null });
  make('small', { layers: 1, pieces: WORDS.toReversed() });
  assert.equal(await shown(), { model: 'small', problem: 'it has another vocabulary' });
  writeFileSync(join(local.folder, 'small.gguf'), 'GGUF');
  const problem = 'it ends in the middle of its header';
  assert.equal(await shown(), { model: 'small', problem });
  assert.is((await local.models.show('small')).draft, null);
});

test('a draft model of another vocabulary, or none, is refused by its name', async () => {
  make('small', { layers: 1, pieces: WORDS.toReversed() });
  const other = await failure(ask(false));
  assert.equal(
    [other.code, other.message],
    ['model_invalid', 'The draft model small does not fit: it has another vocabulary.'],
  );
  draft = 'nothing';
  const none = await failure(ask(false));
  assert.equal(
    [none.code, none.message],
    ['model_unknown', 'The draft model of large is not there: nothing.'],
  );
});

test.run();
