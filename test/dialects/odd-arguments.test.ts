import Anthropic from '@anthropic-ai/sdk';
import { Ollama } from 'ollama';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { OutputPart } from '../../src/ports/providers.ts';
import { finish } from '../helpers/scripted-provider.ts';
import { BEARER, TOKEN } from '../transport/http/boot.ts';
import { bootReal, type Real } from '../transport/http/real.ts';

/** Models write arguments of calls that are no object. No API shows them as valid ones. */
const test = suite<{ real: Real }>('arguments of a call that are no object');

test.before.each(async (context) => {
  context.real = await bootReal();
});
test.after.each(({ real }) => real.close());

const model = 'local/svc-mini';
const messages = [{ role: 'user' as const, content: 'Hi' }];
const call = (text: string, id = 'c1'): OutputPart => ({
  type: 'output',
  kind: 'tool_call',
  call: { id, name: 'weather' },
  text,
  token_ids: [],
});
const INVALID = ['{bad', '{', 'Paris', '[1]', '"{}"', "{'city': 'Paris'}"];
/** In one piece, and in pieces of one character. */
const scripts = (text: string) => [
  [call(text), finish()],
  [...text].map((letter) => call(letter)).concat(finish()),
];

for (const written of INVALID) {
  test(`Ollama: ${written}`, async ({ real }) => {
    const client = new Ollama({ host: real.url, headers: BEARER });
    for (const script of scripts(written)) {
      real.provider.script = script;
      const whole = await client.chat({ model, messages });
      const calls = [...(whole.message.tool_calls ?? [])];
      for await (const { message } of await client.chat({ model, messages, stream: true }))
        calls.push(...(message.tool_calls ?? []));
      const shown = { INVALID_JSON: written };
      assert.equal(
        calls.map((one) => one.function.arguments),
        [shown, shown],
      );
    }
  });

  test(`Anthropic: ${written}`, async ({ real }) => {
    const client = new Anthropic({ apiKey: TOKEN, baseURL: real.url, maxRetries: 0 });
    for (const script of scripts(written)) {
      real.provider.script = script;
      const asked = { model, max_tokens: 9, messages };
      const answers = [
        await client.messages.create(asked),
        await client.messages.stream(asked).finalMessage(),
      ];
      for (const { content, stop_reason } of answers) {
        const [block] = content;
        assert.is(stop_reason, 'tool_use');
        assert.equal(block?.type === 'tool_use' && block.input, { INVALID_JSON: written });
      }
    }
  });

  test(`OpenAI: ${written}`, async ({ real }) => {
    const post = async (path: string, body: object) =>
      (await real.get(path, { method: 'POST', body: JSON.stringify({ model, ...body }) })).json;
    for (const script of scripts(written)) {
      real.provider.script = script;
      const { choices } = await post('/v1/chat/completions', { messages });
      assert.is(choices[0].message.tool_calls[0].function.arguments, written);
      const { output } = await post('/v1/responses', { input: 'Hi' });
      assert.is(output[0].arguments, written);
    }
  });
}

test('Anthropic: right arguments are streamed piece by piece, beside others', async ({ real }) => {
  const client = new Anthropic({ apiKey: TOKEN, baseURL: real.url, maxRetries: 0 });
  real.provider.script = [
    call('bad'),
    call(' {', 'c2'),
    call('"a"', 'c2'),
    call(':1}', 'c2'),
    call('{}', 'c3'),
    call('', 'c4'),
    finish(),
  ];
  const stream = client.messages.stream({ model, max_tokens: 9, messages });
  const inputs = (await stream.finalMessage()).content.map(
    (block) => block.type === 'tool_use' && block.input,
  );
  assert.equal(inputs, [{ INVALID_JSON: 'bad' }, { a: 1 }, {}, {}]);
});

for (const written of ['{"a":1, oops', '{"a":"x" "b":1}', '{"a":1}} {', '{"a": Paris}'])
  test(`Anthropic: what begins as an object and breaks is streamed as written: ${written}`, async ({
    real,
  }) => {
    const client = new Anthropic({ apiKey: TOKEN, baseURL: real.url, maxRetries: 0 });
    const asked = { model, max_tokens: 9, messages };
    for (const script of scripts(written)) {
      real.provider.script = [...script.slice(0, -1), call('{"b":2}', 'c2'), finish()];
      const blocks: string[] = [];
      let end = '';
      for await (const event of await client.messages.create({ ...asked, stream: true })) {
        if (event.type === 'content_block_start') blocks.push('');
        if (event.type === 'content_block_delta' && event.delta.type === 'input_json_delta')
          blocks.push(`${blocks.pop()}${event.delta.partial_json}`);
        if (event.type === 'message_delta') end = event.delta.stop_reason ?? '';
      }
      assert.equal([blocks, end], [[written, '{"b":2}'], 'tool_use']);
      // So the library refuses it. No text that could be read instead was made of it.
      const read = client.messages.stream(asked).finalMessage();
      const { cause } = (await read.catch((error: unknown) => error)) as Error;
      assert.instance(cause, SyntaxError);
      const [whole] = (await client.messages.create(asked)).content;
      assert.equal(whole?.type === 'tool_use' && whole.input, { INVALID_JSON: written });
    }
  });

test('what a client sends back reaches the model as the model wrote it', async ({ real }) => {
  const asked = async (path: string, body: object) => {
    real.provider.script = [finish()];
    await real.get(path, { method: 'POST', body: JSON.stringify({ model, ...body }) });
    const { messages } = real.provider.asked.at(-1)?.request ?? { messages: [] };
    const [part] = messages.flatMap(({ content }) => content.filter((p) => p.type === 'tool_call'));
    return part?.arguments;
  };
  const called = { name: 'weather', arguments: '{bad' };
  const tool_calls = [{ id: 'c1', type: 'function', function: called }];
  const result = { role: 'tool', tool_call_id: 'c1', content: 'Sun.' };
  const chat = { messages: [...messages, { role: 'assistant', tool_calls }, result] };
  assert.is(await asked('/v1/chat/completions', chat), '{bad');
  const use = { type: 'tool_use', id: 'c1', name: 'weather', input: { INVALID_JSON: '{bad' } };
  const seen = { type: 'tool_result', tool_use_id: 'c1', content: 'Sun.' };
  const turns = [
    { role: 'assistant', content: [use] },
    { role: 'user', content: [seen] },
  ];
  const anthropic = { max_tokens: 9, messages: [...messages, ...turns] };
  assert.is(await asked('/v1/messages', anthropic), '{"INVALID_JSON":"{bad"}');
});

test.run();
