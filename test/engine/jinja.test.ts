import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Message, MessagePart, Role } from '../../src/contract/messages/parts.ts';
import { checkAddon } from '../../src/engine/native/addon.ts';
import { splitCalls } from '../../src/engine/template/apart.ts';
import { ChatTemplate } from '../../src/engine/template/template.ts';
import type { SvcError } from '../../src/errors.ts';
import { FAMILIES } from '../fixtures/models/families.ts';

/** What llama.cpp renders, and what svc gives it and makes of its errors. */

const test = suite('rendering by llama.cpp');
const NOW = new Date(2026, 6, 9);
const read = (source: string) => new ChatTemplate(source, { bos_token: '<s>', eos_token: '</s>' });
const said = (role: Role, ...content: (string | MessagePart)[]): Message => ({
  role,
  content: content.map((part) => (typeof part === 'string' ? { type: 'text', text: part } : part)),
});
const rendered = (source: string, messages: Message[], more: object = {}) =>
  read(source).render({ messages, tools: [], now: NOW, plain: (text) => text, ...more });
/** A text that the template writes before the message. */
const written = (source: string, more: object = {}) =>
  rendered(`${source}{{ messages[0].content }}`, [said('user', '.')], more).slice(0, -1);

test('what Python has beside Jinja is rendered', () => {
  const all = [
    ["{{ ['a', 'b'] | join(', ') }}", 'a, b'],
    ["{{ 'ab' * 2 }}", 'abab'],
    ['{% set l = [1] %}{% set _ = l.append(2) %}{{ l | length }}', '2'],
    ["{{ 'x'.lstrip('x') }}{{ 'xay'.strip('xy') }}", 'a'],
    ["{{ nothing | trim }}{{ nothing | length }}{{ 'a' ~ nothing }}", '0a'],
    ['{{ -7 % 3 }}', '-1'],
    ['{% for k, v in {"items": 1}.items() %}{{ k }}{{ v }}{% endfor %}', 'items1'],
    ["{{ ' a' | tojson }}{{ true }}", '" a"True'],
  ] as const;
  for (const [source, text] of all) assert.is(written(source), text, source);
});

test('a number of a conversation is written with all its digits', () => {
  const call = {
    type: 'tool_call',
    id: 'call_1',
    name: 'weather',
    arguments: '{"at":[48.856614,2.3522219,1e-7,1e+300,12345678901234567000,3]}',
  } as const;
  const turns = [said('user', 'x'), said('assistant', call), said('user', 'y')];
  const prompt = rendered(FAMILIES.qwen3, turns);
  assert.match(prompt, '[48.856614, 2.3522219, 1e-7, 1e+300, 12345678901234567000, 3]');
});

test('a template gets the variables of llama-server', () => {
  const time = '{{ date_string }} {{ datetime }}';
  assert.is(written(time), '09 Jul 2026 Jul 09 2026');
  const thinking = '{{ enable_thinking }} {{ reasoning_effort }} {{ reasoning_strength }}';
  assert.is(written(thinking), 'True  ');
  assert.is(written(thinking, { reasoning_effort: 'none' }), 'False  ');
  assert.is(written(thinking, { reasoning_effort: 'low' }), 'True low low');
  const shown = '{{ preserve_thinking }} {{ clear_thinking }}';
  assert.is(
    written(`${shown} {{ truncate_history_thinking }} {{ drop_thinking }}`),
    'True False False False',
  );
  assert.is(written('{{ tools is defined }}{{ add_generation_prompt }}'), 'FalseTrue');
  assert.is(written("{{ strftime_now('%A %-d %B %y, %H:%M') }}"), 'Thursday 9 July 26, 00:00');
});

test('a template that refuses differs from one that llama.cpp cannot render', () => {
  const refusal = (source: string) => {
    const template = `{% if messages | length > 1 %}${source}{% endif %}{{ messages[0].content }}`;
    try {
      rendered(template, [said('user', 'a'), said('assistant', 'b'), said('user', 'c')]);
    } catch (thrown) {
      const { code, message, hint, param } = thrown as SvcError;
      assert.equal([code, param], ['capability_missing', 'messages']);
      return [message, hint];
    }
    return [];
  };
  assert.equal(refusal("{{ raise_exception('One turn, please.') }}"), [
    'The chat template of the model refuses the conversation: One turn, please.',
    'Change the messages as the template asks for, or name another template in model_templates.',
  ]);
  const [message, hint] = refusal("\n{{ 1 + nothing }}{{ strftime_now('%d') }}");
  assert.is(
    message,
    'llama.cpp cannot render the chat template of the model for this conversation: ' +
      'Cannot perform operation + on undefined values (line 2)',
  );
  assert.match(hint ?? '', /^The fault is in the template .* model_templates, such as chatml\.$/);
});

test('a template that cannot be rendered says why', () => {
  const reason = (source: string) => {
    try {
      read(source);
    } catch (thrown) {
      return (thrown as Error).message;
    }
    return '';
  };
  assert.is(
    reason("{{ messages | groupby('role') }}"),
    "Unknown (built-in) filter 'groupby' for type Array (line 1)",
  );
  assert.match(reason('{% for m in messages %}{{ m.content }}'), /./);
  assert.is(reason('{{ foo }'), 'parser: Parser Error: Expected }} (Got })');
  assert.match(reason('{{ bos_token }}'), 'leaves out');
});

test('a template that knows no parallel calls gets one after the other, each with its result', () => {
  const call = (n: number) =>
    ({ type: 'tool_call', id: `call_${n}`, name: 'act', arguments: `{"n":${n}}` }) as const;
  const result = (n: number) =>
    said('tool', { type: 'tool_result', id: `call_${n}`, text: `sky ${n}`, is_error: false });
  const turns = [
    said('user', 'x'),
    said('assistant', 'Both.', call(1), call(2)),
    result(2),
    result(1),
    said('assistant', call(3)),
    result(3),
    said('user', 'y'),
  ];
  const prompt = rendered(FAMILIES.llama, turns);
  const places = ['{"n": 1}', 'sky 1', '{"n": 2}', 'sky 2', '{"n": 3}', 'sky 3'].map((text) => {
    assert.is(prompt.split(text).length, 2, `${text} once: ${prompt}`);
    return prompt.indexOf(text);
  });
  assert.equal(
    places,
    [...places].sort((a, b) => a - b),
  );
});

test('calls that are set apart keep their results, and other turns stay', () => {
  const calls = (...ids: string[]) => ({
    role: 'assistant',
    content: 'c',
    tool_calls: ids.map((id) => ({ id })),
  });
  const result = (tool_call_id: string) => ({ role: 'tool', content: 'r', tool_call_id });
  const user = { role: 'user', content: 'u' };
  const single = [user, calls('a'), result('a'), user];
  assert.equal(splitCalls<object & { role: string; content: unknown }>(single), single);
  assert.equal(splitCalls([user, calls('a', 'b'), result('b'), result('lost'), user]), [
    user,
    calls('a'),
    { ...calls('b'), content: '' },
    result('b'),
    result('lost'),
    user,
  ]);
});

test('an addon that renders no templates is refused by its name', () => {
  class Other {
    render() {
      return '';
    }
  }
  for (const addon of [{}, null, { AddonJinjaRenderer: Other }])
    assert.throws(
      () => checkAddon(addon),
      (error: SvcError) =>
        error.code === 'engine_unavailable' && error.message.includes('llama-addon.node'),
    );
});

test.run();
