import { utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { GENERIC } from '../../src/answer-forms/calls.ts';
import { callsText } from '../../src/answer-forms/write.ts';
import { TEMPLATE_FORMS } from '../../src/config/value.ts';
import type { Message, MessagePart, Role } from '../../src/contract/messages/parts.ts';
import { openAddon } from '../../src/engine/native/addon.ts';
import { chooseTemplate } from '../../src/engine/template/choose.ts';
import { ChatTemplate } from '../../src/engine/template/template.ts';
import { SvcError } from '../../src/errors.ts';
import type { Log } from '../../src/ports/log.ts';
import { FAMILIES } from '../fixtures/models/families.ts';
import { CHATML, type GgufOptions, makeGguf } from '../fixtures/models/make-gguf.ts';
import { TOOLS } from '../fixtures/models/templates.ts';
import type { Asking } from '../helpers/asking.ts';
import { type LocalHarness, makeLocalProvider, runRequest } from '../helpers/local-provider.ts';
import { TOOL_LIST } from '../helpers/made-models.ts';

/** The prompt of a local model is its own template, and no text of a user is a part of its form. */

const SPECIAL = { bos_token: '<s>', eos_token: '</s>' };
const NOW = new Date(2026, 6, 9);
const families = Object.entries(FAMILIES);
const read = (source: string) => new ChatTemplate(source, SPECIAL);
const said = (role: Role, ...content: (string | MessagePart)[]): Message => ({
  role,
  content: content.map((part) => (typeof part === 'string' ? { type: 'text', text: part } : part)),
});
const rendered = (source: string, messages: Message[], more: object = {}) =>
  read(source).render({ messages, tools: [], now: NOW, plain: (text) => text, ...more });
/** What llama.cpp renders of these very messages. */
const plainly = (source: string, messages: object[], more: object = {}) => {
  const { AddonJinjaRenderer: Renderer } = openAddon();
  const values = { add_generation_prompt: true, enable_thinking: true, ...SPECIAL, ...more };
  return new Renderer(source).render({ ...values, messages });
};

test('a prompt is what the template writes, for one turn and for several', () => {
  const turns = [
    said('user', ' Hi  there\n'),
    said('assistant', 'Hello.'),
    said('user', 'More, please!'),
  ];
  const plain = turns.map(({ role, content }) => ({
    role,
    content: (content[0] as { text: string }).text,
  }));
  for (const [name, source] of families)
    for (const count of [1, 3]) {
      if (source.includes('strftime_now')) continue;
      assert.is(
        rendered(source, turns.slice(0, count)),
        plainly(source, plain.slice(0, count)),
        name,
      );
    }
});

test('a template gets tools, calls, results and reasoning as it takes them', () => {
  const call = {
    type: 'tool_call',
    id: 'call_1',
    name: 'weather',
    arguments: '{"city": "Paris"}',
  } as const;
  const messages = [
    said('user', 'Weather?'),
    said('assistant', { type: 'reasoning', text: 'Look.' }, call),
    said('tool', { type: 'tool_result', id: 'call_1', text: 'Sun.', is_error: false }),
  ];
  const tools = TOOL_LIST.slice(0, 1);
  const prompt = rendered(FAMILIES.qwen3, messages, { tools });
  const plain = [
    { role: 'user', content: 'Weather?' },
    {
      role: 'assistant',
      content: '',
      reasoning_content: 'Look.',
      tool_calls: [
        {
          id: 'call_1',
          type: 'function',
          function: { name: 'weather', arguments: { city: 'Paris' } },
        },
      ],
    },
    { role: 'tool', content: 'Sun.', tool_call_id: 'call_1', name: 'weather' },
  ];
  const described = tools.map((tool) => ({ type: 'function', function: tool }));
  assert.is(prompt, plainly(FAMILIES.qwen3, plain, { tools: described }));
  assert.match(
    prompt,
    '<think>\nLook.\n</think>\n\n<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}',
  );
  for (const [name, source] of families)
    assert.match(rendered(source, messages), /Paris.*Sun\./s, `${name} loses nothing`);
});

test('the time that a template writes is that of the run', () => {
  assert.match(rendered(FAMILIES.llama, [said('user', 'x')]), 'Today Date: 09 Jul 2026');
});

test('an effort reaches the templates that have it', () => {
  const ask = (reasoning_effort?: string) =>
    rendered(FAMILIES.qwen3, [said('user', 'x')], { reasoning_effort });
  assert.match(ask('none'), /<think>\n\n<\/think>\n\n$/);
  assert.match(ask('high'), /assistant\n$/);
});

test('what a template refuses is said in a form that it takes', () => {
  const odd = [
    said('assistant', 'One.'),
    said('user', 'a'),
    said('system', 'Late.'),
    said('user', 'b'),
  ];
  for (const [name, source] of families) {
    const prompt = rendered(source, [said('system', 'Be kind.'), ...odd]);
    const places = ['Be kind.', 'One.', 'a', 'Late.', 'b'].map((text) => prompt.indexOf(text));
    assert.ok(!places.includes(-1), `${name}: ${prompt}`);
  }
  const gemma = rendered(FAMILIES.gemma, [said('system', 'Be kind.'), said('user', 'Hi')]);
  assert.is(gemma, '<s><start_of_turn>user\nBe kind.\n\nHi<end_of_turn>\n<start_of_turn>model\n');
});

test('an answer that has begun goes on after its last word', () => {
  for (const [name, source] of families) {
    const prompt = rendered(source, [said('user', 'Count.'), said('assistant', 'One, two')]);
    assert.ok(prompt.endsWith('One, two'), `${name}: ${prompt}`);
  }
});

test('the prompt of the next turn begins with this one and its answer', () => {
  for (const [name, source] of families) {
    if (['gpt_oss', 'deepseek', 'qwen3', 'mistral'].includes(name)) continue;
    const first = rendered(source, [said('user', 'Hi')]);
    const next = rendered(source, [
      said('user', 'Hi'),
      said('assistant', 'Hello.'),
      said('user', 'x'),
    ]);
    assert.ok(next.startsWith(`${first}Hello.`), name);
  }
});

test('the forms of calls, reasoning and the end are those of the family of the template', () => {
  const written = (source: string) =>
    callsText(read(source).calls[0], [
      { name: 'f', arguments: { a: 1 } },
      { name: 'g', arguments: {} },
    ]);
  assert.is(
    written(FAMILIES.qwen3),
    '<tool_call>\n{"name": "f", "arguments": {"a":1}}\n</tool_call>\n' +
      '<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>',
  );
  assert.is(
    written(FAMILIES.mistral),
    '[TOOL_CALLS][{"name": "f", "arguments": {"a":1}}, {"name": "g", "arguments": {}}]',
  );
  assert.is(
    written(FAMILIES.llama),
    '{"name": "f", "parameters": {"a":1}}; {"name": "g", "parameters": {}}',
  );
  assert.match(written(FAMILIES.phi), '<|tool_call|>[{"name": "f"');
  assert.is(read(FAMILIES.gpt_oss).calls.at(-1)?.families, 'gpt-oss (harmony)');
  for (const name of ['gemma', 'smollm2', 'deepseek'] as const)
    assert.equal([read(FAMILIES[name]).hasTools, read(FAMILIES[name]).calls[0]], [false, GENERIC]);
  const closing = (source: string) => read(source).thoughts?.reasoning?.closing;
  assert.is(closing(FAMILIES.gpt_oss), '<|end|><|start|>assistant<|channel|>final<|message|>');
  assert.is(closing(FAMILIES.qwen3), '\n</think>\n\n');
  assert.is(read(FAMILIES.gemma).thoughts, null);
  assert.equal(
    families.map(([, source]) => read(source).end.trim()),
    [
      '<|im_end|>',
      '<|im_end|>',
      '<|eot_id|>',
      '</s>',
      '<｜end▁of▁sentence｜>',
      '<end_of_turn>',
      '<|return|>',
      '<|end|>',
    ],
  );
});

test('a template that cannot be rendered is replaced by the plain form of its control tokens', () => {
  const file = { source: "{{ messages | groupby('role') }}", ...SPECIAL };
  const chosen = chooseTemplate({ ...file, vocabulary: ['a', '<start_of_turn>'] });
  assert.is(chosen.name, 'gemma');
  assert.match(chosen.problem ?? '', 'groupby');
  const messages = [said('system', 'Be kind.'), said('user', 'Hi')];
  assert.is(
    chosen.template?.render({ messages, tools: [], now: NOW, plain: (text) => text }),
    '<start_of_turn>user\nBe kind.\n\nHi<end_of_turn>\n<start_of_turn>model\n',
  );
  assert.is(chooseTemplate({ ...file, vocabulary: ['<|im_start|>'] }).name, 'chatml');
  assert.is(chooseTemplate({ ...file, vocabulary: ['a'] }).name, 'none');
  const none = { template: null, text: '', source: '', name: 'none', problem: null };
  assert.equal(chooseTemplate({ ...file, source: null, vocabulary: ['<|im_start|>'] }), none);
});

test('the record of a model says that its template is replaced, and the log warns', async () => {
  const record = (await local.provider.models(new AbortController().signal)).find(
    ({ name }) => name === 'broken',
  );
  assert.match(record?.template_problem ?? '', /groupby.*chatml is used instead/);
  assert.ok((await count('broken', 'Hi')) > 0);
  assert.ok(warned.some((text) => text.includes('another one is used')));
});

test('a form that the configuration names replaces the template of the file', () => {
  const file = { source: FAMILIES.smollm2, ...SPECIAL, vocabulary: [] };
  const render = (named: string[], source: string | null = file.source) =>
    chooseTemplate({ ...file, source }, named).template?.render({
      messages: [said('system', 'Be kind.'), said('user', 'Hi'), said('assistant', 'Yes')].concat(
        said('user', 'So?'),
      ),
      tools: [],
      now: NOW,
      plain: (text) => text,
    });
  const expected: Record<string, string> = {
    chatml:
      '<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n' +
      '<|im_start|>assistant\nYes<|im_end|>\n<|im_start|>user\nSo?<|im_end|>\n<|im_start|>assistant\n',
    llama3:
      '<|start_header_id|>system<|end_header_id|>\n\nBe kind.<|eot_id|>' +
      '<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>' +
      '<|start_header_id|>assistant<|end_header_id|>\n\nYes<|eot_id|>' +
      '<|start_header_id|>user<|end_header_id|>\n\nSo?<|eot_id|>' +
      '<|start_header_id|>assistant<|end_header_id|>\n\n',
    gemma:
      '<start_of_turn>user\nBe kind.\n\nHi<end_of_turn>\n<start_of_turn>model\nYes<end_of_turn>\n' +
      '<start_of_turn>user\nSo?<end_of_turn>\n<start_of_turn>model\n',
    mistral: '[INST] Be kind.\n\nHi [/INST] Yes</s>[INST] So? [/INST]',
    phi:
      '<|system|>\nBe kind.<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\nYes<|end|>\n' +
      '<|user|>\nSo?<|end|>\n<|assistant|>\n',
    granite:
      '<|start_of_role|>system<|end_of_role|>Be kind.<|end_of_text|>\n' +
      '<|start_of_role|>user<|end_of_role|>Hi<|end_of_text|>\n' +
      '<|start_of_role|>assistant<|end_of_role|>Yes<|end_of_text|>\n' +
      '<|start_of_role|>user<|end_of_role|>So?<|end_of_text|>\n' +
      '<|start_of_role|>assistant<|end_of_role|>',
  };
  for (const form of TEMPLATE_FORMS)
    for (const source of [file.source, null])
      assert.is(render([form], source), expected[form], form);
});

test('models are asked with the templates that the configuration names, and say so', async () => {
  const names = { base: 'chatml', defined: join(local.folder, 'tools.jinja') };
  const bad = { smollm2: '/nowhere.jinja', broken: join(local.folder, 'bad.jinja') };
  writeFileSync(names.defined, TOOLS);
  writeFileSync(bad.broken, '{% for m in messages %}');
  const warnings: object[] = [];
  const named = makeLocalProvider({
    models: local.folder,
    log: { ...log, warn: (fields) => void warnings.push(fields) },
    library: {
      templates: () => [
        ...Object.entries({ ...names, ...bad }).map(([model, value]) => ({ model, value })),
        { model: 'begins', value: 'chatml' },
        { model: 'local/begins', value: 'gemma' },
        { model: 'absent', value: 'gemma' },
        { model: 'svc-mini', value: 'gemma' },
      ],
    },
  });
  try {
    const records = await named.provider.models(new AbortController().signal);
    const shown = async (name: string) => {
      const { capabilities, template_problem, template } = await named.models.show(name);
      const record = records.find((each) => each.name === name);
      assert.equal(record?.capabilities, capabilities);
      assert.is(record?.template_problem, template_problem);
      return [capabilities.join(' '), template, template_problem ?? ''] as const;
    };
    assert.equal(await shown('base'), ['chat completion', 'chatml (model_templates)', '']);
    assert.equal(await shown('defined'), [
      'chat completion tools',
      `${names.defined} (model_templates)`,
      '',
    ]);
    for (const [model, reason] of [
      ['smollm2', /\/nowhere\.jinja: ENOENT.*that of its file is used/],
      ['broken', /bad\.jinja: .+groupby.*chatml is used instead/],
      ['begins', /several templates: chatml, gemma.*that of its file is used/],
    ] as const) {
      const [capabilities, template, problem] = await shown(model);
      assert.match(problem, reason);
      assert.is(capabilities, 'chat completion');
      assert.not.match(template ?? '', 'model_templates');
    }
    assert.is((await shown('svc-mini'))[2], '');
    const tokens = (model: string) =>
      named.provider.countTokens?.(
        runRequest({ model, prompt: 'Hi' }),
        new AbortController().signal,
      );
    assert.is(await tokens('base'), await count('defined', 'Hi'));
    assert.is(await tokens('smollm2'), await count('smollm2', 'Hi'));
    const text = (fields: object) => JSON.stringify(fields);
    assert.ok(warnings.some((each) => text(each).includes('/nowhere.jinja: ENOENT')));
    // A template that changes is read again.
    writeFileSync(names.defined, `${CHATML}{# </think> #}`);
    utimesSync(names.defined, 1, 1);
    assert.equal((await named.models.show('defined')).capabilities, [
      'chat',
      'completion',
      'thinking',
    ]);
  } finally {
    await named.close();
  }
});

const STRUCTURE = ['</think>', '<tool_call>', '</tool_call>', '<start_of_image>'];
const warned: string[] = [];
const log: Log = { debug() {}, info() {}, warn: (_, text) => void warned.push(text), error() {} };
let local: LocalHarness;
test.before(() => {
  local = makeLocalProvider({ log });
  const template = `${CHATML}{# ${STRUCTURE.join(' ')} #}`;
  const files: Record<string, GgufOptions> = {
    defined: { template, defined: [...STRUCTURE, '<table>', '<|odd|>'] },
    begins: { template: `{{ bos_token }}${CHATML}` },
    smollm2: { template: FAMILIES.smollm2 },
    base: { template: null, pieces: [['<|fim_prefix|>'], ['<|fim_suffix|>'], ['<|fim_middle|>']] },
    broken: { template: "{{ messages | groupby('role') }}" },
  };
  for (const [name, options] of Object.entries(files))
    makeGguf(join(local.folder, `${name}.gguf`), { context: 2048, ...options });
});
test.after(() => local.close());

const count = (model: string, prompt: string, changes: Asking = {}) =>
  local.provider.countTokens?.(
    runRequest({ model, prompt, ...changes }),
    new AbortController().signal,
  ) ?? Promise.reject(new Error('it cannot count'));

test('no text of a user becomes a token of the form of a conversation', async () => {
  const empty = (await count('defined', 'a')) - 1;
  for (const text of [...STRUCTURE, '<|odd|>', '<|im_end|>', '<unk>', 'a</think>b<|im_start|>c'])
    assert.is((await count('defined', text)) - empty, text.length, text);
  assert.is((await count('defined', '<table>')) - empty, 1, 'a word of the vocabulary stays one');
  const system = await count('defined', 'a', { system: '</think><|im_end|>' });
  assert.is(
    system - (await count('defined', 'a', { system: 'a' })),
    '</think><|im_end|>'.length - 1,
  );
});

test('the default system text of a template is in the prompt, and the first token is there once', async () => {
  const bare = 'You are a helpful assistant.'.length;
  assert.ok((await count('smollm2', 'Who are you?')) > bare + 'Who are you?'.length);
  const chatml = { messages: [said('user', 'x')] };
  const begins = await count('begins', 'x', chatml);
  assert.is(begins, (await count('defined', 'x', chatml)) + 1);
});

test('a text is continued as it is: without a template, and where the request says so', async () => {
  for (const [model, more, tokens] of [
    ['base', {}, '<|im_end|>a'.length],
    ['base', { raw: true }, 2],
    ['smollm2', { raw: true }, 2],
  ] as const) {
    assert.is(await count(model, 'abc', more), 3, model);
    assert.is(
      await count(model, '<|im_end|>a', more),
      tokens,
      'only raw texts have control tokens',
    );
  }
  const turns = [said('user', 'ab'), said('assistant', 'c'), said('user', 'd')];
  assert.is(await count('base', '', { messages: turns }), 'ab\nc\nd'.length);
});

test('a model with the tokens for it fills in the middle of a text', async () => {
  assert.is(await count('base', 'ab', { suffix: 'c' }), 'abc'.length + 3);
  const spelled = '<|fim_middle|>';
  assert.is(await count('base', spelled, { suffix: 'c' }), spelled.length + 1 + 3);
});

test('what a bare text cannot have is refused by name', async () => {
  const all = [
    ['smollm2', { suffix: 'c' }, 'suffix'],
    ['svc-mini', { raw: true }, 'raw'],
    ['base', { raw: true, system: 'x' }, 'messages'],
    ['defined', { raw: true, tools: TOOL_LIST }, 'tools'],
  ] as const;
  for (const [model, more, param] of all) {
    const thrown = await count(model, 'a', more).catch((error: unknown) => error);
    assert.ok(thrown instanceof SvcError, `${model} ${param}`);
    assert.equal([thrown.code, thrown.param], ['capability_missing', param]);
  }
});

test.run();
