import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { ModelPresets } from '../../../src/config/presets.ts';
import type { RunInput } from '../../../src/contract/contract.ts';
import { loadedAliasesOf, withPreset } from '../../../src/runtime/models/alias.ts';
import { chooseRoutes } from '../../../src/runtime/runs/route.ts';

/** What a created model asks for, where a request says nothing itself. */

const presets: ModelPresets = {
  mario: {
    system: 'You are Mario.',
    temperature: 0.5,
    messages: [
      { role: 'user', text: 'Who?' },
      { role: 'assistant', text: 'Me.' },
    ],
    chat_template: 'chatml',
    licence: 'MIT',
  },
};
const said = (input: RunInput) =>
  (withPreset({ model: 'mario', ...input }, presets).messages ?? []).map(({ role, content }) => [
    role,
    ...content.map((part) => (part.type === 'text' ? part.text : part.type)),
  ]);
const user = (text: string) => ({
  role: 'user' as const,
  content: [{ type: 'text' as const, text }],
});
const system = { role: 'system' as const, content: [{ type: 'text' as const, text: 'Be short.' }] };
const examples = [
  ['user', 'Who?'],
  ['assistant', 'Me.'],
];

test('the system text and the examples come before what is asked, once', () => {
  const whole = [['system', 'You are Mario.'], ...examples, ['user', 'Hi']];
  assert.equal(said({ prompt: 'Hi' }), whole);
  assert.equal(said({ messages: [user('Hi')] }), whole);
  const own = [['system', 'Be short.'], ...examples, ['user', 'Hi']];
  assert.equal(said({ prompt: 'Hi', system: 'Be short.' }), own);
  assert.equal(said({ messages: [system, user('Hi')] }), own);
  const later = [system, user('Hi'), user('More')];
  assert.equal(said({ messages: later, conversation: 'run_1' }), [
    ['system', 'Be short.'],
    ['user', 'Hi'],
    ['user', 'More'],
  ]);
});

test('a text that is continued gets none of them, and what is no option is no field', () => {
  for (const more of [{ raw: true }, { suffix: 'x' }, { suffix: '' }]) {
    const input = withPreset({ model: 'mario', prompt: 'a', ...more }, presets);
    assert.equal(input, { model: 'mario', prompt: 'a', temperature: 0.5, ...more });
  }
  // So the turn before names it.
  assert.is(withPreset({ model: 'local/mario', prompt: 'a' }, presets).temperature, 0.5);
  const plain = { plain: { temperature: 1 } };
  assert.is(withPreset({ model: 'local/plain', prompt: 'a' }, plain).temperature, undefined);
  const { temperature, ...rest } = withPreset({ model: 'mario:latest', prompt: 'a' }, presets);
  assert.is(temperature, 0.5);
  assert.equal(Object.keys(rest).sort(), ['messages', 'model']);
});

test('an alias with its own template is asked by its own name at the local engine', () => {
  const aliases = { mario: 'local/base', plain: 'local/base' };
  assert.equal(loadedAliasesOf({ aliases, alias_presets: presets }), [
    { name: 'mario', model: 'local/base', chat_template: 'chatml' },
  ]);
  const config = {
    default_provider: 'local',
    default_cloud_provider: null,
    model: 'svc-mini',
    aliases,
    alias_presets: { ...presets, plain: { temperature: 1 } },
  };
  const modelOf = (model: string) =>
    chooseRoutes({ model }, config, new Map([['local', null]]))[0].model;
  assert.equal(['mario', 'mario:latest', 'plain'].map(modelOf), ['mario', 'mario', 'base']);
});

test.run();
