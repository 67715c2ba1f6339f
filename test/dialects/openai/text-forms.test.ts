import type OpenAI from 'openai';
import type { APIError } from 'openai';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { output } from '../../helpers/scripted-provider.ts';
import type { Real } from '../../transport/http/real.ts';
import { asked, bootOpenai, end, hi } from './boot.ts';

const test = suite<{ real: Real; client: OpenAI }>('the form of a text, in the API of OpenAI');

test.before.each(async (context) => {
  Object.assign(context, await bootOpenai());
});
test.after.each(({ real }) => real.close());

test('a regular expression, a choice and a grammar are asked for by all their names', async ({
  real,
  client,
}) => {
  const grammar = 'root ::= "yes" | "no"';
  real.provider.script = [output('yes', 1), end()];
  for (const [field, form] of [
    [{ regex: 'yes|no' }, { regex: 'yes|no' }],
    [{ guided_regex: 'yes|no' }, { regex: 'yes|no' }],
    [{ structured_outputs: { regex: 'yes|no' } }, { regex: 'yes|no' }],
    [{ choice: ['yes', 'no'] }, { choice: ['yes', 'no'] }],
    [{ guided_choice: ['yes', 'no'] }, { choice: ['yes', 'no'] }],
    [{ structured_outputs: { choice: ['yes', 'no'] } }, { choice: ['yes', 'no'] }],
    [{ grammar }, { grammar }],
    [{ guided_grammar: grammar }, { grammar }],
    [{ ebnf: grammar }, { grammar }],
    [{ structured_outputs: { grammar } }, { grammar }],
  ] as const)
    for (const create of [
      () => client.chat.completions.create({ ...hi, ...(field as object) }),
      () => client.completions.create({ model: hi.model, prompt: 'Hi', ...(field as object) }),
    ]) {
      await create();
      const { regex, choice, grammar } = asked(real);
      assert.equal(JSON.parse(JSON.stringify({ regex, choice, grammar })), form);
    }
});

test('a text that does not fit its form is an error that says why', async ({ real, client }) => {
  real.provider.script = [output('maybe', 1), end()];
  for (const [field, why] of [
    [{ regex: 'yes|no' }, 'The regular expression does not describe it.'],
    [{ choice: ['yes', 'no'] }, 'It is not one of the choices.'],
    [{ grammar: 'root ::= "yes" | "may"' }, 'The grammar has no "b" at letter 4.'],
    [{ grammar: 'root ::= "maybe!"' }, 'It ends before the grammar does.'],
  ] as const) {
    const error = await client.chat.completions.create({ ...hi, ...(field as object) }).then(
      () => null,
      (thrown: APIError) => thrown,
    );
    assert.equal([error?.status, error?.code], [502, 'answer_wrong_form']);
    assert.ok(error?.message.endsWith(why), error?.message);
  }
});

test.run();
