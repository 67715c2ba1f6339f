import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parseRunInput } from '../../src/contract/inputs.ts';
import { SvcError } from '../../src/errors.ts';
import { defaultLimits } from '../../src/limits.ts';

const parse = (value: unknown) => parseRunInput(value, defaultLimits);

function refused(value: unknown): [string, string | null] {
  try {
    parse(value);
  } catch (error) {
    assert.instance(error, SvcError);
    const { code, param } = (error as SvcError).body();
    return [code, param];
  }
  throw new Error('it was accepted');
}

const user = (content: unknown) => ({ messages: [{ role: 'user', content }] });
const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

test('a text is the short form of one text part', () => {
  assert.equal(parse(user('Hi')).messages, [
    { role: 'user', content: [{ type: 'text', text: 'Hi' }] },
  ]);
});

test('messages replace prompt and system, and cannot come with them', () => {
  assert.equal(refused({ ...user('Hi'), prompt: 'Hi' }), ['invalid_request', 'messages']);
  assert.equal(refused({ ...user('Hi'), system: 'x' }), ['invalid_request', 'messages']);
  assert.equal(refused({}), ['prompt_missing', 'prompt']);
  assert.equal(refused({ messages: [] }), ['invalid_request', 'messages']);
});

test('each role has its kinds of parts', () => {
  const call = { type: 'tool_call', id: 'c', name: 'f', arguments: '{}' };
  assert.equal(refused(user([call])), ['invalid_request', 'messages.0.content.0']);
  assert.equal(refused({ messages: [{ role: 'robot', content: 'x' }] }), [
    'invalid_request',
    'messages.0.role',
  ]);
  const image = { type: 'image', media_type: 'image/png', data: PNG };
  assert.equal(refused({ messages: [{ role: 'system', content: [image] }] }), [
    'invalid_request',
    'messages.0.content.0',
  ]);
  assert.is(parse(user([image, { type: 'text', text: 'What is it?' }])).messages?.length, 1);
});

test('a sound is a part of what the user says', () => {
  for (const [media_type, head] of [
    ['audio/wav', 'RIFF\0\0\0\0WAVE'],
    ['audio/mpeg', 'ID3\x04'],
    ['audio/mpeg', '\xff\xfb\x90\x64'],
  ] as const) {
    const sound = {
      type: 'audio',
      media_type,
      data: Buffer.from(head, 'latin1').toString('base64'),
    };
    assert.is(parse(user([sound])).messages?.[0]?.content.length, 1, media_type);
    const wrong = { ...sound, media_type: media_type === 'audio/wav' ? 'audio/mpeg' : 'audio/wav' };
    assert.equal(refused(user([wrong])), ['invalid_request', 'messages.0.content.0']);
    assert.is(
      refused({ messages: [{ role: 'assistant', content: [sound] }] })[0],
      'invalid_request',
    );
  }
});

test('a file that is not an image is refused with its place', () => {
  for (const [media_type, data] of [
    ['image/png', 'AAAA'],
    ['image/jpeg', PNG],
    ['image/png', 'not base64!'],
    ['image/png', ''],
    ['image/svg+xml', PNG],
  ])
    assert.is(refused(user([{ type: 'image', media_type, data }]))[0], 'invalid_request', data);
});

test('a tool result needs the call that it answers', () => {
  const result = { role: 'tool', content: [{ type: 'tool_result', id: 'c', text: '4' }] };
  const call = { type: 'tool_call', id: 'c', name: 'add', arguments: '{}' };
  assert.is(
    parse({
      messages: [{ role: 'user', content: '2+2' }, { role: 'assistant', content: [call] }, result],
    }).messages?.length,
    3,
  );
  assert.equal(refused({ messages: [{ role: 'user', content: '2+2' }, result] }), [
    'invalid_request',
    'messages.1.content.0',
  ]);
});

test('a tool choice names a tool of the request, and names are used once', () => {
  const tools = [{ name: 'add' }];
  assert.equal(refused({ ...user('x'), tools, tool_choice: { name: 'sub' } }), [
    'invalid_request',
    'tool_choice',
  ]);
  assert.equal(refused({ ...user('x'), tools: [...tools, ...tools] }), [
    'invalid_request',
    'tools',
  ]);
  assert.equal(refused({ ...user('x'), tool_choice: 'required' }), [
    'invalid_request',
    'tool_choice',
  ]);
  assert.equal(parse({ ...user('x'), tools }).tools, [
    { name: 'add', description: null, parameters: {} },
  ]);
});

test('every text counts to the bound of a prompt, and none holds NUL', () => {
  const parameters = { type: 'object', description: 'x'.repeat(5 * 1024 * 1024) };
  assert.equal(refused({ ...user('x'), tools: [{ name: 'f', parameters }] }), [
    'prompt_too_large',
    'messages',
  ]);
  assert.equal(refused({ ...user('x'), tools: [{ name: 'f', description: 'a\0b' }] }), [
    'prompt_not_text',
    'tools',
  ]);
});

test('more messages than the limit are refused', () => {
  const messages = Array.from({ length: 5000 }, () => ({ role: 'user', content: 'x' }));
  assert.equal(refused({ messages }), ['invalid_request', 'messages']);
});

test('tools are checked with the short form, too', () => {
  const tool = { name: 'f', parameters: {} };
  assert.equal(refused({ prompt: 'Hi', tools: [tool, tool] }), ['invalid_request', 'tools']);
  assert.equal(refused({ prompt: 'Hi', tool_choice: 'required' }), [
    'invalid_request',
    'tool_choice',
  ]);
});

test('a schema has bounds, before anything walks it', () => {
  let deep: object = {};
  for (let level = 0; level < 100_000; level += 1) deep = { not: deep };
  const wide = { enum: Array.from({ length: 20_001 }, () => 1) };
  for (const schema of [deep, wide]) {
    assert.equal(refused({ prompt: 'Hi', tools: [{ name: 'f', parameters: schema }] }), [
      'invalid_request',
      'tools.0.parameters',
    ]);
    assert.equal(refused({ prompt: 'Hi', response_format: { type: 'json', schema } }), [
      'invalid_request',
      'response_format.schema',
    ]);
  }
  const half = { enum: Array.from({ length: 10_000 }, () => 1) };
  const tools = ['a', 'b'].map((name) => ({ name, parameters: half }));
  parse({ prompt: 'Hi', tools: tools.slice(1) });
  assert.equal(refused({ prompt: 'Hi', tools }), ['invalid_request', 'tools.1.parameters']);
});

test('the parts and tools of a run are counted, and the limit that can be raised is named', () => {
  const limits = { ...defaultLimits, run_messages: 1, run_tools: 1 };
  const tool = (name: string) => ({ name, description: '', parameters: { type: 'object' } });
  const text = { type: 'text', text: 'Hi' };
  for (const [input, hint] of [
    [
      { messages: [{ role: 'user', content: [text, text, text] }] },
      'Send fewer, or raise the limit run_messages.',
    ],
    [{ prompt: 'Hi', tools: [tool('a'), tool('b')] }, 'Send fewer.'],
  ] as const)
    assert.throws(
      () => parseRunInput(input, limits),
      (thrown: { hint: string }) => thrown.hint === hint,
    );
});

test.run();
