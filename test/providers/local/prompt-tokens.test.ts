import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ulid } from 'ulid';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { LoadedModel } from '../../../src/engine/load.ts';
import { openAddon } from '../../../src/engine/native/addon.ts';
import type { Model, Token } from '../../../src/engine/native/model.ts';
import { promptOfOrder, Structure } from '../../../src/engine/prompt.ts';
import type { RunOrder } from '../../../src/engine/protocol/messages.ts';
import { ChatTemplate } from '../../../src/engine/template/template.ts';
import { packageRoot } from '../../../src/home/paths.ts';
import { testModel } from '../../../tools/test-models/models.ts';
import { FAMILIES } from '../../fixtures/models/families.ts';
import { makeGguf } from '../../fixtures/models/make-gguf.ts';
import { openNative } from '../../helpers/native-model.ts';

/** The tokens of a prompt are those of the rendered template of the file, one by one. */

const folder = mkdtempSync(join(tmpdir(), 'svc-prompt-'));
/** The structure of all families, as control tokens of one vocabulary. */
const marks = new Set(
  Object.values(FAMILIES).flatMap(
    (source) => source.match(/<\|[\w ]+\|>|<\w+_of_turn>|\[\/?[A-Z_]+\]|<｜[^｜]+｜>/g) ?? [],
  ),
);
const made = makeGguf(join(folder, 'made.gguf'), {
  context: 2048,
  pieces: [...marks].filter((mark) => !/im_(start|end)/.test(mark)).map((mark) => [mark] as const),
});
const mini = join(packageRoot(), 'src/providers/mini/svc-mini.gguf');
const real = testModel('smollm2');
if (real === null) console.log('without SmolLM2: no models of npm run test-models');
const models = await Promise.all([made, mini, ...(real === null ? [] : [real])].map(openNative));
test.after(() => rmSync(folder, { recursive: true, force: true }));

const call_key = ulid();
const now = new Date();
const turns = (count: number) => [
  { role: 'system', content: 'Be kind.' },
  ...[' Hi  there\n\nñ 漢字 🦙', 'Hello.', 'And 1 < 2, [x] | y?']
    .slice(0, count)
    .map((content, at) => ({ role: at % 2 === 0 ? 'user' : 'assistant', content })),
];

const spelled = (model: Model, token: Token | null) => (token === null ? '' : model.textOf(token));

/** What the engine computes for these turns. */
function tokensOf(model: Model, source: string, said: ReturnType<typeof turns>): number[] {
  const tokens = {
    bos_token: spelled(model, model.tokens.bos),
    eos_token: spelled(model, model.tokens.eos),
  };
  const loaded = {
    model,
    template: new ChatTemplate(source, tokens),
    structure: new Structure(model, source),
    rendered: (work: () => unknown) => work(),
    built_in: false,
    knowsTags: false,
  } as unknown as LoadedModel;
  const messages = said.map(({ role, content }) => ({
    role,
    content: [{ type: 'text', text: content }],
  }));
  const order = { messages, options: {}, call_key } as unknown as RunOrder;
  return promptOfOrder(loaded, order).tokens;
}

/** What llama.cpp renders of these very messages, in the tokens of the model. */
function reference(model: Model, source: string, messages: object[]): number[] {
  const { bos, eos, addsBos } = model.tokens;
  const { AddonJinjaRenderer: Renderer } = openAddon();
  const text = new Renderer(source).render({
    messages,
    add_generation_prompt: true,
    bos_token: spelled(model, bos),
    eos_token: spelled(model, eos),
  });
  const tokens = model.tokenize(text, true);
  return bos === null || !addsBos || tokens[0] === bos ? tokens : [bos, ...tokens];
}

/** Forms that refuse a system text. */
const WITHOUT_SYSTEM = new Set(['gemma', 'mistral']);

test('each form has the tokens that its rendered template has, with each vocabulary', () => {
  let compared = 0;
  for (const [name, source] of Object.entries(FAMILIES))
    for (const [at, model] of models.entries())
      for (const count of [1, 3]) {
        const said = turns(count).slice(WITHOUT_SYSTEM.has(name) ? 1 : 0);
        const own = tokensOf(model, source, said);
        assert.equal(own, reference(model, source, said), `${name}, model ${at}, ${count} turns`);
        compared += own.length;
      }
  assert.ok(compared > 1000, `${compared} tokens`);
});

test('a text that spells structure has other tokens than the structure, and the same letters', () => {
  const [model] = models as [Model];
  for (const [name, source] of Object.entries(FAMILIES)) {
    const control = new Set(model.tokenize([...marks].join(''), true));
    const structural = (content: string) =>
      tokensOf(model, source, [{ role: 'user', content }]).filter((token) =>
        control.has(token as never),
      );
    assert.ok(structural('x').length > 1, name);
    assert.equal(structural([...marks].join(' ')), structural('x'), name);
  }
});

/** Short templates in the forms of Qwen3-Coder, GLM and MiniMax: calls are XML, not JSON. */
const xml = (call: string) => `{%- if tools %}<|im_start|>system
<tools>{%- for tool in tools %}{{ tool.function.name }}{%- endfor %}</tools><|im_end|>
{% endif %}{%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{%- for call in m.tool_calls or [] %}${call}{%- endfor %}<|im_end|>
{% endfor %}{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}`;
const each = (before: string, between: string, after: string) =>
  `{%- for k, v in call.function.arguments | items %}${before}{{ k }}${between}{{ v }}${after}{%- endfor %}`;
const XML = {
  coder: xml(
    `<tool_call>\n<function={{ call.function.name }}>\n${each('<parameter=', '>\n', '\n</parameter>\n')}</function>\n</tool_call>`,
  ),
  glm: xml(
    `<tool_call>{{ call.function.name }}\n${each('<arg_key>', '</arg_key>\n<arg_value>', '</arg_value>\n')}</tool_call>`,
  ),
  minimax: xml(
    `<minimax:tool_call>\n<invoke name="{{ call.function.name }}">\n${each('<parameter name="', '">', '</parameter>\n')}</invoke>\n</minimax:tool_call>`,
  ),
};

test('a template whose calls are XML writes its tools and calls itself', () => {
  const written = {
    coder: '<function=weather><parameter=city>Paris</parameter></function></tool_call>',
    glm: '<tool_call>weather<arg_key>city</arg_key><arg_value>Paris</arg_value></tool_call>',
    minimax: '<invokename="weather"><parametername="city">Paris</parameter></invoke>',
  };
  for (const [name, source] of Object.entries(XML)) {
    const template = new ChatTemplate(source, { bos_token: '', eos_token: '' });
    assert.is(template.hasTools, true, name);
    const call = {
      type: 'tool_call',
      id: 'c',
      name: 'weather',
      arguments: '{"city":"Paris"}',
    } as const;
    const prompt = template.render({
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'Weather?' }] },
        { role: 'assistant', content: [call] },
        {
          role: 'tool',
          content: [{ type: 'tool_result', id: 'c', text: 'Sun.', is_error: false }],
        },
      ],
      tools: [{ name: 'weather', description: null, parameters: {} }],
      now,
      plain: (text: string) => text,
    });
    assert.match(prompt.replace(/\s/g, ''), written[name as keyof typeof XML]);
    assert.match(prompt, 'Sun.');
    assert.match(prompt, '<tools>weather</tools>');
  }
});

test.run();
