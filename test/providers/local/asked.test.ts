import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Message } from '../../../src/contract/messages/parts.ts';
import { SvcError } from '../../../src/errors.ts';
import type { Asking } from '../../helpers/asking.ts';
import { failure } from '../../helpers/failure.ts';
import {
  type LocalHarness,
  makeLocalProvider,
  partsOf,
  readAnswer,
  runRequest,
  type WholeAnswer,
} from '../../helpers/local-provider.ts';
import { makeModels, THOUGHTS, TOOL_LIST } from '../../helpers/made-models.ts';

/** What a run may be asked beside a prompt, with real models of llama.cpp. */

let local: LocalHarness;
test.before(() => {
  local = makeLocalProvider({ model: 'random' });
  makeModels(local.folder);
});
test.after(() => local.close());

const ask = (model: string, changes: Asking = {}) =>
  readAnswer(local, { model, max_tokens: 300, ...changes });
const user = (text: string): Message => ({ role: 'user', content: [{ type: 'text', text }] });
const count = (changes: Asking) =>
  local.provider.countTokens?.(runRequest(changes), new AbortController().signal) ??
  Promise.reject(new Error('it cannot count'));

const WEATHER = { type: 'tool_call', name: 'weather', arguments: '{"city": "Paris"}' } as const;

test('tool calls are parts of the answer, with the same ids in each attempt of a run', async () => {
  const answer = await ask('calls', { tools: TOOL_LIST });
  const [text, ...calls] = partsOf(answer);
  assert.equal(text, { type: 'text', text: 'Let me see.' });
  assert.equal(
    calls.map((part) => ({ ...part, id: '' })),
    [
      { ...WEATHER, id: '' },
      { type: 'tool_call', name: 'sum', arguments: '[1, 2]', id: '' },
    ],
  );
  assert.is(answer.finish?.finish_reason, 'tool_calls');
  const ids = async () => {
    const found = new Set<string>();
    const attempt = {
      run_id: 'run_same',
      attempt: 1,
      request: runRequest({ model: 'calls', tools: TOOL_LIST }),
      resume: null,
    };
    for await (const part of local.provider.stream(attempt, new AbortController().signal))
      if (part.type === 'output' && part.call !== undefined) found.add(part.call.id);
    return [...found];
  };
  assert.equal([await ids(), await ids()], Array(2).fill(['call_same_0', 'call_same_1']));
});

test('without tools, or with tool_choice none, the text of a call is text', async () => {
  for (const changes of [{}, { tools: TOOL_LIST, tool_choice: 'none' as const }]) {
    const answer = await ask('calls', changes);
    assert.match(answer.text, '<tool_call>');
    assert.equal([partsOf(answer), answer.finish?.finish_reason], [[], 'stop']);
  }
});

test('an answer that must call a tool is one valid call of it, also by random weights', async () => {
  for (const [tool_choice, name] of [
    ['required', /^(weather|sum)$/],
    [{ name: 'weather' }, /^weather$/],
  ] as const) {
    for (const seed of [1, 2, 3]) {
      const request = { tools: TOOL_LIST, tool_choice, seed, temperature: 1 };
      const answer = await ask('random', { ...request, max_tokens: 1500 });
      const [call, ...others] = partsOf(answer);
      assert.equal(others, []);
      assert.ok(call?.type === 'tool_call' && name.test(call.name), JSON.stringify(call));
      const said: unknown = JSON.parse(call.arguments);
      if (call.name === 'weather') assert.ok(Object.hasOwn(said as object, 'city'));
      assert.is(answer.finish?.finish_reason, 'tool_calls');
    }
  }
});

test('a tool without parameters gets an empty object, however its schema says so', async () => {
  const parameters: Record<string, unknown>[] = [
    {},
    { type: 'object', properties: {}, title: 'nowArguments' },
    { $schema: 'http://json-schema.org/draft-07/schema#', required: [], description: 'none' },
    { type: 'object', properties: {}, $defs: { Unit: { enum: ['s'] } } },
  ];
  for (const each of parameters) {
    const tools = [{ name: 'now', description: null, parameters: each }];
    const answer = await ask('random', { tools, tool_choice: 'required', max_tokens: 200 });
    const [call] = partsOf(answer);
    assert.equal(call?.type === 'tool_call' && JSON.parse(call.arguments), {});
  }
});

test('arguments of a call that the model chose have the form of its tool too', async () => {
  const tools = TOOL_LIST.map((tool) => ({
    ...tool,
    parameters: { type: 'object', properties: { city: { const: 'Rome' } }, required: ['city'] },
  }));
  const answer = await ask('calls', { tools });
  const calls = partsOf(answer).filter((part) => part.type === 'tool_call');
  // What the model says between them is free, and a bound of the answer cuts the last one.
  const whole = answer.finish?.finish_reason === 'length' ? calls.slice(0, -1) : calls;
  assert.ok(whole.length > 0);
  for (const call of whole) assert.equal(JSON.parse(call.arguments), { city: 'Rome' });
});

test('a template without tools gets them as a system text, and the run is marked', async () => {
  const request = { tools: TOOL_LIST, max_tokens: 1500, temperature: 1 };
  const required = await ask('plain', { ...request, tool_choice: { name: 'weather' } });
  const [call] = partsOf(required);
  assert.ok(call?.type === 'tool_call' && call.name === 'weather');
  assert.ok(Object.hasOwn(JSON.parse(call.arguments) as object, 'city'));
  assert.is(required.finish?.tool_form, 'generic');
  const free = { ...request, max_tokens: 1 };
  const marks = async (model: string, more: Asking = {}) =>
    (await ask(model, { ...free, ...more })).finish?.tool_form;
  assert.is(await marks('plain'), 'generic');
  assert.is(await marks('plain', { tool_choice: 'none' }), undefined);
  assert.is(await marks('random'), undefined);
});

test('a response format makes JSON of its schema, also of random weights', async () => {
  const schema = {
    type: 'object',
    title: 'Person',
    properties: {
      name: { type: 'string', maxLength: 6 },
      age: { anyOf: [{ type: 'integer' }, { type: 'null' }] },
      kind: { enum: ['a', 'b'] },
      tags: { type: 'array', items: { $ref: '#/$defs/tag' }, maxItems: 2 },
    },
    required: ['name', 'age', 'kind', 'tags'],
    additionalProperties: false,
    $defs: { tag: { type: 'string', maxLength: 3 } },
  };
  for (const seed of [1, 2, 3]) {
    const format = { type: 'json', name: 'person', schema } as const;
    const request = { response_format: format, seed, temperature: 1, max_tokens: 1500 };
    const answer = await ask('random', request);
    const said = JSON.parse(answer.text) as Record<string, unknown>;
    assert.equal(Object.keys(said), ['name', 'age', 'kind', 'tags']);
    assert.ok(said.kind === 'a' || said.kind === 'b');
    assert.ok(said.age === null || Number.isInteger(said.age));
    assert.is(answer.finish?.finish_reason, 'stop');
  }
  const any = await ask('random', {
    response_format: { type: 'json', name: null, schema: null },
    temperature: 1.5,
    max_tokens: 20,
  });
  assert.match(any.text, /^\{/);
});

test('a schema that has no grammar is refused by the name of its part', async () => {
  const refused = async (schema: Record<string, unknown>, about: RegExp) => {
    const error = await failure(
      ask('random', { response_format: { type: 'json', name: null, schema } }),
    );
    assert.is(error.code, 'capability_missing');
    assert.is(error.param, 'response_format');
    assert.match(error.message, about);
  };
  await refused({ $ref: '#/$defs/none' }, /the reference "#\/\$defs\/none" at the schema/);
  await refused({ $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/a' } } }, /no finite value/);
  let deep: Record<string, unknown> = { type: 'null' };
  for (let depth = 0; depth < 500; depth += 1) deep = { type: 'array', items: deep };
  await refused(deep, /deeper than/);
  await refused(
    {
      type: 'object',
      properties: Object.fromEntries(Array.from({ length: 3000 }, (_, n) => [n, {}])),
    },
    /more than/,
  );
  assert.match(local.state(), /^warm/, 'the engine lives');
});

test('a request that is nested too deeply for a message fails, and leaves the engine idle', async () => {
  let schema: Record<string, unknown> = { type: 'null' };
  for (let depth = 0; depth < 50_000; depth += 1) schema = { items: schema };
  const format = { type: 'json', name: null, schema } as const;
  assert.is((await failure(ask('random', { response_format: format }))).code, 'engine_failed');
  assert.is((await ask('plain', { max_tokens: 1 })).token_ids.length, 1, 'another model loads');
});

test('what the model cannot do is refused before anything is computed', async () => {
  const refused = async (changes: Asking, about: RegExp, param: string) => {
    for (const work of [ask, (model: string, each: Asking) => count({ model, ...each })]) {
      const error = await failure(work('plain', changes));
      assert.is(error.code, 'capability_missing');
      assert.match(error.message, about);
      assert.is(error.retryable, false);
      assert.is(error.param, param);
    }
  };
  await refused({ model: 'svc-mini', tools: TOOL_LIST }, /calls no tools/, 'tools');
  await refused(
    { model: 'svc-mini', response_format: { type: 'json', name: null, schema: null } },
    /keeps to no form/,
    'response_format',
  );
  const image = { type: 'image', media_type: 'image/png', data: 'iVBORw0KGgo=' } as const;
  const look = { role: 'user', content: [{ type: 'text', text: 'Look' }, image] } as const;
  await refused(
    { messages: [look] },
    /no images.*svc engine install llama-server$/,
    'messages.0.content.1',
  );
  const sound = { type: 'audio', media_type: 'audio/wav', data: 'UklGRgAAAABXQVZF' } as const;
  await refused(
    { messages: [{ role: 'user', content: [sound] }] },
    /hears no audio.*svc engine install llama-server$/,
    'messages.0.content.0',
  );
});

test('an answer ends before a stop text that several tokens spell', async () => {
  const whole = await ask('random', { max_tokens: 60, temperature: 0.9 });
  const stop = whole.text.slice(20, 24);
  assert.is(whole.text.indexOf(stop), 20);
  const answer = await ask('random', { max_tokens: 60, temperature: 0.9, stop: ['\0', stop] });
  assert.is(answer.text, whole.text.slice(0, 20));
  assert.equal([answer.finish?.finish_reason, answer.finish?.stop_sequence], ['stop', stop]);
  assert.ok(answer.token_ids.length < whole.token_ids.length);
  const never = await ask('random', { max_tokens: 60, temperature: 0.9, stop: [`${stop}\0`] });
  assert.equal([never.text, never.finish?.stop_sequence], [whole.text, undefined]);
});

test('reasoning is a separate part', async () => {
  const answer = await ask('thinks', { stop: ['Well'] });
  assert.equal(partsOf(answer), [
    { type: 'reasoning', text: 'Hm. Well.' },
    { type: 'text', text: 'Yes, indeed.' },
  ]);
  assert.is(answer.finish?.finish_reason, 'stop');
});

test('the tokens of the reasoning are counted, with its marks, and are tokens of the answer too', async () => {
  const usage = async (changes: Asking) => (await ask('thinks', changes)).finish?.usage;
  const whole = await usage({ stop: ['Well'] });
  assert.equal([whole?.reasoning_tokens, whole?.output_tokens], [5, THOUGHTS.length]);
  const short = await usage({ reasoning_effort: 'none', max_tokens: 40 });
  assert.ok((short?.reasoning_tokens ?? 0) > 0);
  assert.is((await ask('random', { max_tokens: 5 })).finish?.usage.reasoning_tokens, undefined);
});

test('penalties count the tokens of the answer', async () => {
  const greedy = { temperature: 0, max_tokens: 120 };
  const repeats = ({ token_ids }: WholeAnswer) => token_ids.length - new Set(token_ids).size;
  const free = await ask('random', greedy);
  const presence = await ask('random', { ...greedy, presence_penalty: 2 });
  const frequency = await ask('random', { ...greedy, frequency_penalty: 2 });
  assert.ok(repeats(free) > repeats(presence), 'presence');
  assert.ok(repeats(free) > repeats(frequency), 'frequency');
  const repeat = await ask('random', { ...greedy, repeat_penalty: 2 });
  assert.ok(repeats(free) > repeats(repeat), 'repeat');
});

test('dry_multiplier ends repetitions, and 0 changes nothing', async () => {
  const greedy = { temperature: 0, max_tokens: 120 };
  const triples = ({ token_ids }: WholeAnswer) => {
    const all = token_ids.slice(2).map((_, at) => token_ids.slice(at, at + 3).join(' '));
    return all.length - new Set(all).size;
  };
  const free = await ask('random', greedy);
  const dry = await ask('random', { ...greedy, dry_multiplier: 5 });
  assert.ok(triples(free) > triples(dry), `${triples(free)} ${triples(dry)}`);
  assert.equal((await ask('random', { ...greedy, dry_multiplier: 0 })).token_ids, free.token_ids);
});

test('logit_bias bans tokens and forces one, and a token that no model has is refused', async () => {
  const greedy = { temperature: 0, max_tokens: 20 };
  const [first = 0] = (await ask('random', greedy)).token_ids;
  const banned = await ask('random', { ...greedy, logit_bias: { [first]: -100 } });
  assert.not(banned.token_ids.includes(first), 'banned');
  const forced = await ask('random', {
    temperature: 1,
    max_tokens: 20,
    logit_bias: { [first]: 100 },
  });
  assert.equal(forced.token_ids, Array(20).fill(first));
  const both = { ...greedy, dry_multiplier: 5, logit_bias: { [first]: -100 } };
  assert.not((await ask('random', both)).token_ids.includes(first), 'beside dry_multiplier');
  const thrown = await ask('random', { logit_bias: { 999999999: 1 } }).catch(
    (error: unknown) => error,
  );
  assert.ok(thrown instanceof SvcError);
  assert.equal([thrown.code, thrown.param], ['invalid_request', 'logit_bias']);
});

test('an answer that repeats itself is ended, and 0 lets it go on', async () => {
  const schema = { const: 'z'.repeat(600) };
  const greedy = {
    temperature: 0,
    max_tokens: 400,
    response_format: { type: 'json', name: null, schema },
  } as const;
  const free = await ask('random', { ...greedy, repetition_tokens: 0 });
  assert.is(free.finish?.finish_reason, 'length');
  const ended = await ask('random', { ...greedy, repetition_tokens: 64 });
  assert.is(ended.finish?.finish_reason, 'repetition');
  const { length } = ended.token_ids;
  assert.ok(length >= 64 && length < 400, `${length} tokens`);
  assert.equal(ended.token_ids, free.token_ids.slice(0, length));
  assert.is(ended.finish?.usage.output_tokens, length);
});

test('each sampler changes a drawn answer, or leaves it, and a seed repeats it', async () => {
  const drawn = { temperature: 1.5, seed: 3, top_k: 0, top_p: 1, max_tokens: 24 };
  const tokens = async (more: object) => (await ask('random', { ...drawn, ...more })).token_ids;
  const usual = await tokens({});
  for (const more of [
    { typical_p: 0.2 },
    { top_n_sigma: 0.5 },
    { xtc_probability: 1, xtc_threshold: 0.001 },
    { dynatemp_range: 1.4, dynatemp_exponent: 4 },
    { min_p: 0.5 },
  ]) {
    const changed = await tokens(more);
    assert.not.equal(changed, usual, JSON.stringify(more));
    assert.equal(await tokens(more), changed, JSON.stringify(more));
  }
  const off = { typical_p: 1, top_n_sigma: 0, xtc_probability: 0, dynatemp_range: 0 };
  assert.equal(await tokens(off), usual);
});

test('top_p 0, top_k 1 and min_p 1 are greedy, at any temperature', async () => {
  const greedy = await ask('random', { temperature: 0, max_tokens: 30 });
  for (const narrow of [{ top_p: 0 }, { top_k: 1 }, { min_p: 1 }]) {
    const answer = await ask('random', { temperature: 1.5, max_tokens: 30, ...narrow });
    assert.equal(answer.token_ids, greedy.token_ids, JSON.stringify(narrow));
  }
  const free = await ask('random', { temperature: 1.5, max_tokens: 30, top_p: 1, top_k: 0 });
  assert.not.equal(free.token_ids, greedy.token_ids);
});

test('a model reasons as long as its effort allows', async () => {
  const all = [
    { type: 'reasoning', text: 'Hm. Well.' },
    { type: 'text', text: 'Yes, indeed.' },
  ];
  for (const effort of ['high', 'minimal'] as const)
    assert.equal(partsOf(await ask('thinks', { stop: ['x'], reasoning_effort: effort })), all);
  const none = await ask('thinks', { reasoning_effort: 'none', max_tokens: 40 });
  assert.equal(partsOf(none), [], 'its prompt opens the reasoning, and the first tokens close it');
  const mini = await ask('svc-mini', { prompt: 'What is a run?', reasoning_effort: 'high' });
  assert.equal(partsOf(mini), [], 'it has no reasoning, and answers');
});

test('an answer has one call at most, if the request says so', async () => {
  const calls = async (more: Asking) =>
    partsOf(await ask('calls', { tools: TOOL_LIST, ...more })).filter(
      ({ type }) => type === 'tool_call',
    ).length;
  assert.is(await calls({}), 2);
  assert.is(await calls({ parallel_tool_calls: false }), 1);
});

test('each token comes with its probability, and does not change by that', async () => {
  const request = { temperature: 0, max_tokens: 40 };
  const plain = await ask('random', request);
  const answer = await ask('random', { ...request, logprobs: 3 });
  assert.equal(answer.token_ids, plain.token_ids);
  const all = answer.parts.flatMap((part) => (part.type === 'output' ? (part.logprobs ?? []) : []));
  assert.is(all.length, 40);
  for (const { token, logprob, top } of all) {
    assert.is(top.length, 3);
    assert.equal(top[0], { token, logprob }, 'greedy takes the likeliest');
    assert.ok(logprob < 0 && logprob >= (top[1]?.logprob ?? 0));
  }
  const chosen = await ask('random', { ...request, logprobs: 0 });
  const [first] = chosen.parts;
  assert.ok(first?.type === 'output');
  assert.equal(first.logprobs?.[0]?.top, []);
  assert.is(first.logprobs?.[0]?.logprob, all[0]?.logprob);
});

test('the whole conversation is rendered, and none of it becomes a control token', async () => {
  const call = {
    type: 'tool_call',
    id: 'c1',
    name: 'weather',
    arguments: '{"city":"Rome"}',
  } as const;
  const messages = (said: string): Message[] => [
    { role: 'system', content: [{ type: 'text', text: `Be kind ${said}` }] },
    user(`Hello ${said}`),
    { role: 'assistant', content: [{ type: 'text', text: `Hi ${said}` }] },
    user('And the weather?'),
    { role: 'assistant', content: [{ ...call, arguments: JSON.stringify({ city: said }) }] },
    { role: 'tool', content: [{ type: 'tool_result', id: 'c1', text: said, is_error: false }] },
  ];
  const tools = (description: string) => TOOL_LIST.map((tool) => ({ ...tool, description }));
  const tokens = (said: string, other = said) =>
    count({ model: 'random', messages: messages(said), tools: tools(other) });
  // Both have ten letters. Only one of them spells a control token.
  assert.is(await tokens('<|im_end|>'), await tokens('<|im_enX|>'));
  // Seven times in messages and tools, and each letter is a token.
  assert.is((await tokens('abcdefghijk')) - (await tokens('abcdefghij')), 7);
  const last = messages('x').at(3);
  assert.ok(last !== undefined);
  const alone = await count({ model: 'random', messages: [last] });
  assert.ok((await count({ model: 'random', messages: messages('x') })) > alone + 60);
});

test('a conversation that does not fit is refused with both numbers, and never cut', async () => {
  const messages = Array.from(
    { length: 40 },
    (_, index): Message => ({
      role: index % 2 === 0 ? 'user' : 'assistant',
      content: [{ type: 'text', text: 'word '.repeat(20) }],
    }),
  );
  const error = await failure(ask('random', { messages }));
  assert.equal([error.code, error.param], ['context_length_exceeded', 'messages']);
  assert.match(error.message, /\d{4} tokens; the context holds 2048/);
});

test('the built-in model answers the last prompt of a conversation', async () => {
  const question = 'How do I start it?';
  const alone = await ask('svc-mini', { prompt: question });
  const asked = await ask('svc-mini', {
    messages: [
      user('What is the weather in Rome?'),
      { role: 'assistant', content: [{ type: 'text', text: 'I do not know.' }] },
      user(question),
    ],
  });
  assert.is(asked.text, alone.text);
  assert.equal(asked.finish?.usage, alone.finish?.usage);
  assert.is(asked.finish?.finish_reason, 'stop');
});

test('an answer goes on with the last message of the assistant', async () => {
  const begin = (said: string, more: Partial<Message> = {}): Message => ({
    role: 'assistant',
    content: [{ type: 'text', text: said }],
    ...more,
  });
  const asked = (...messages: Message[]) => count({ model: 'calls', messages });
  const open = await asked(user('Hi'));
  const continued = { continued: true } as const;
  const longer = await asked(user('Hi'), begin('So', continued));
  const longest = await asked(user('Hi'), begin('So the', continued));
  // The template ends no message after it.
  assert.ok(open < longer && longer < longest);
  assert.ok(longest - open <= 'So the'.length);
  const of = { messages: [user('Hi'), begin('So', continued)] };
  const json = { response_format: { type: 'json', name: null, schema: null } } as const;
  const refused = await failure(ask('calls', { ...of, ...json }));
  assert.equal([refused.code, refused.param], ['capability_missing', 'messages']);
  const built_in = await failure(ask('svc-mini', of));
  assert.equal([built_in.code, built_in.param], ['capability_missing', 'messages.1']);
});

test.run();
