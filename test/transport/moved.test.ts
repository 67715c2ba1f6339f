import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../src/errors.ts';
import { finish, output, ScriptedProvider } from '../helpers/scripted-provider.ts';
import { bootReal, type Real } from './http/real.ts';

/** A run that goes on to another target: every API names the target that answers. */
const test = suite<{ real: Real }>('a run that moved');

test.before.each(async (context) => {
  const far = new ScriptedProvider('far', [new SvcError('provider_unauthorised')]);
  const near = new ScriptedProvider('near', [output('Hello'), output(' you'), finish()]);
  context.real = await bootReal({
    remote: { far: { port: far, kind: 'cloud' }, near: { port: near, kind: 'local' } },
    settings: { aliases: { chain: ['far/m1', 'near/m2'] } },
  });
});
test.after.each(({ real }) => real.close());

const messages = [{ role: 'user', content: 'hi' }];
const apis: [path: string, body: object][] = [
  ['/v1/chat/completions', { messages }],
  ['/v1/completions', { prompt: 'hi' }],
  ['/v1/messages', { messages, max_tokens: 9 }],
  ['/v1/responses', { input: 'hi' }],
];

for (const [path, body] of apis) {
  const post = (real: Real, more: object) =>
    real.get(path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...body, model: 'chain', ...more }),
    });

  test(`${path} names the model that answers, whole and streamed`, async ({ real }) => {
    const whole = await post(real, {});
    assert.is(JSON.parse(whole.text).model, 'near/m2', whole.text);
    const { text } = await post(real, { stream: true });
    assert.match(text, 'Hello');
    const named = [...text.matchAll(/"model":"([^"]*)"/g)].map(([, model]) => model);
    assert.is(named.at(-1), 'near/m2');
    // A response is created before any target is asked.
    if (path !== '/v1/responses') assert.equal([...new Set(named)], ['near/m2']);
  });
}

test.run();
