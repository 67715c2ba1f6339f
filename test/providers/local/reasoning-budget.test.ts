import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeGguf } from '../../fixtures/models/make-gguf.ts';
import { THINKS } from '../../fixtures/models/templates.ts';
import type { Asking } from '../../helpers/asking.ts';
import {
  type LocalHarness,
  makeLocalProvider,
  partsOf,
  readAnswer,
  type WholeAnswer,
} from '../../helpers/local-provider.ts';
import { makeModels, TOOL_LIST } from '../../helpers/made-models.ts';

/**
 * How many tokens a local model may reason. `ponders` has random weights and begins each answer
 * inside its reasoning, which it would never end. `letters` says `A€B`, with `€` in three tokens.
 */

let local: LocalHarness;
test.before(() => {
  local = makeLocalProvider({ model: 'ponders' });
  makeModels(local.folder);
  makeGguf(join(local.folder, 'ponders.gguf'), { template: THINKS, context: 2048 });
  makeGguf(join(local.folder, 'marked.gguf'), { template: THINKS, defined: ['</think>'] });
  const says = ['A', 0xe2, 0x82, 0xac, 'B'];
  makeGguf(join(local.folder, 'letters.gguf'), { template: THINKS, width: 128, says });
});
test.after(() => local.close());

const ask = (model: string, changes: Asking = {}) =>
  readAnswer(local, { model, max_tokens: 120, ...changes });
const kindsOf = (answer: WholeAnswer) => partsOf(answer).map(({ type }) => type);
const thoughtIn = (answer: WholeAnswer) =>
  partsOf(answer)
    .map((part) => (part.type === 'reasoning' ? part.text : ''))
    .join('');
const reasoned = ({ finish }: WholeAnswer) => finish?.usage.reasoning_tokens ?? 0;

test('reasoning ends after as many tokens as its budget has, and they are those of the free answer', async () => {
  for (const temperature of [0, 1]) {
    const free = await ask('ponders', { temperature });
    assert.equal([kindsOf(free), reasoned(free)], [['reasoning'], 120]);
    const ends = new Set<string>();
    for (const budget of [0, 1, 5, 40]) {
      const answer = await ask('ponders', { temperature, reasoning_budget_tokens: budget });
      const over = reasoned(answer) - budget;
      assert.equal(answer.token_ids.slice(0, budget), free.token_ids.slice(0, budget));
      assert.ok(over > 0 && answer.token_ids.length === 120, `${budget}: ${over}`);
      const end = answer.token_ids.slice(0, reasoned(answer)).slice(-CLOSING.length);
      ends.add(end.join(' '));
      assert.ok(over <= CLOSING.length + LETTER_TOKENS, `${budget}: ${over}`);
      assert.not.match(thoughtIn(answer), 'think');
    }
    assert.is(ends.size, 1, 'the end has the same tokens each time');
  }
});

/** This model has a token for each letter. */
const CLOSING = '\n</think>';
const LETTER_TOKENS = 3;

test('the end is forced in the tokens of the model, not in others that spell it', async () => {
  for (const seed of [1, 2, 3]) {
    const request = { temperature: 1.5, seed, reasoning_budget_tokens: 4 };
    const [marked, plain] = [await ask('marked', request), await ask('ponders', request)];
    assert.ok(reasoned(plain) >= 4 + CLOSING.length);
    assert.ok(reasoned(marked) >= 6 && reasoned(marked) <= 6 + LETTER_TOKENS, 'two tokens');
  }
});

test('a letter of several tokens is written to its end', async () => {
  for (const [budget, thought] of [
    [1, 'A'],
    [2, 'A€'],
    [3, 'A€'],
    [4, 'A€'],
    [5, 'A€B'],
  ] as const) {
    const answer = await ask('letters', { reasoning_budget_tokens: budget });
    assert.is(thoughtIn(answer), thought, `${budget}`);
  }
});

test('a budget that is not used up changes nothing', async () => {
  const free = await ask('thinks');
  const bound = await ask('thinks', { reasoning_budget_tokens: 10 });
  assert.equal([bound.token_ids, partsOf(bound)], [free.token_ids, partsOf(free)]);
  const plain = await ask('random');
  assert.equal(
    (await ask('random', { reasoning_budget_tokens: 0 })).token_ids,
    plain.token_ids,
    'a model without reasoning keeps any budget',
  );
});

test('a budget goes before the one of an effort', async () => {
  const both = await ask('ponders', { reasoning_budget_tokens: 3, reasoning_effort: 'high' });
  const alone = await ask('ponders', { reasoning_budget_tokens: 3 });
  assert.equal(both.token_ids, alone.token_ids);
});

test('the form of the text begins after the reasoning', async () => {
  const schema = TOOL_LIST[0]?.parameters ?? {};
  const answer = await ask('ponders', {
    response_format: { type: 'json', name: null, schema },
    reasoning_budget_tokens: 6,
    temperature: 1,
    max_tokens: 400,
  });
  assert.equal([answer.finish?.finish_reason, answer.finish?.form], ['stop', 'kept']);
  const [, text] = partsOf(answer);
  assert.is(text?.type === 'text' && typeof JSON.parse(text.text).city, 'string');
  assert.ok(reasoned(answer) >= 6 + CLOSING.length);
});

test('several answers in one batch keep their own budgets', async () => {
  const shared = makeLocalProvider({ model: 'ponders', batching: true });
  try {
    makeGguf(join(shared.folder, 'ponders.gguf'), { template: THINKS, context: 2048 });
    const budgets = [2, 9, 23, 31];
    const answers = await Promise.all(
      budgets.map((budget) =>
        readAnswer(shared, {
          model: 'ponders',
          max_tokens: 80,
          seed_asked: false,
          reasoning_budget_tokens: budget,
        }),
      ),
    );
    for (const [index, answer] of answers.entries()) {
      const over = reasoned(answer) - (budgets[index] ?? 0);
      assert.ok(over >= CLOSING.length && over <= CLOSING.length + LETTER_TOKENS, `${over}`);
    }
  } finally {
    await shared.close();
  }
});

test.run();
