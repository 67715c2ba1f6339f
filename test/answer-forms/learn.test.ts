import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { CALLS } from '../../src/answer-forms/calls.ts';
import { rowOf } from '../../src/answer-forms/form.ts';
import { THOUGHTS } from '../../src/answer-forms/thoughts.ts';
import { callsText } from '../../src/answer-forms/write.ts';
import { openAddon } from '../../src/engine/native/addon.ts';
import { ChatTemplate } from '../../src/engine/template/template.ts';

/** A template of no known family shows its form in two conversations. */

openAddon();

const template = (call: string, thought = '') =>
  new ChatTemplate(
    [
      '{%- if tools %}<sys>{{ tools | tojson }}</sys>{% endif %}',
      "{%- for m in messages %}{% if m.role == 'assistant' %}<bot>",
      thought,
      '{{ m.content }}',
      `{%- for call in m.tool_calls or [] %}${call}{% endfor %}</bot>`,
      '{%- else %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endif %}{% endfor %}',
      '{%- if add_generation_prompt %}<bot>{% endif %}',
    ].join(''),
    { bos_token: '', eos_token: '' },
  );
const NAME = '{{ call.function.name }}';
const JSON_TEXT = '{{ call.function.arguments | tojson }}';
const written = ({ calls: [row] }: ChatTemplate) => {
  const calls = ['f', 'g'].map((name) => ({ name, arguments: {} }));
  return callsText(row, calls);
};

test('what both conversations have in common is the form, without names, ids and questions', () => {
  const plain = template(`<use tool="${NAME}">${JSON_TEXT}</use>`);
  assert.is(plain.hasTools, true);
  assert.is(written(plain), '<use tool="f">{}</use><use tool="g">{}</use>');
  const withIds = template(`<use tool="${NAME}" id="{{ call.id }}">${JSON_TEXT}</use>`);
  assert.is(
    written(withIds),
    '<use tool="f" id="a1b2c3d4e">{}</use><use tool="g" id="a1b2c3d4e">{}</use>',
  );
});

test('a mark that begins as that of the reasoning does is not cut', () => {
  const thinks = template(
    `<thing>${NAME}:${JSON_TEXT}</thing>`,
    '<thoughts>{{ m.reasoning_content }}</thoughts>',
  );
  assert.is(written(thinks), '<thing>f:{}</thing><thing>g:{}</thing>');
  assert.is(thinks.thoughts?.reasoning?.begun, '<thoughts>');
});

test('calls that are not written as a name and JSON get the generic form', () => {
  const odd = template(`<use>${NAME} with {{ call.function.arguments.qzkey }}</use>`);
  assert.equal([odd.hasTools, written(odd).startsWith('<tool_call>')], [false, true]);
});

test('of a template that has the marks of two families, the more special one counts', () => {
  const family = (text: string) => rowOf(CALLS, text)?.families ?? '';
  assert.match(family('<tool_call>{"name": '), /^Hermes/);
  assert.match(family('<tool_call>\n<function=f>\n<parameter=k>'), /^Qwen3-Coder/);
  assert.match(family('<tool_call>{f}<arg_key>{k}</arg_key><arg_value>'), /^GLM 4\.7/);
  assert.match(family('<tool_call>{f}\n<arg_key>{k}</arg_key>\n<arg_value>'), /^GLM 4\.5/);
  assert.match(family('[TOOL_CALLS]f[CALL_ID]i[ARGS]'), /^Mistral Small 3\.2/);
  assert.match(family('[TOOL_CALLS]f[ARGS]'), /^Devstral/);
  assert.match(family('[TOOL_CALLS][{'), /^Mistral Nemo/);
  assert.is(family(']<]minimax[>[<tool_call>'), '', 'its tags are in a namespace');
  assert.match(rowOf(THOUGHTS, '<response> </think>')?.families ?? '', /^Qwen3/);
  assert.match(rowOf(THOUGHTS, '<|start_of_role|> <response>')?.families ?? '', /^Granite 3\.3/);
});

test.run();
