import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { textOfNamed } from '../../src/engine/template/named.ts';
import type { CreatedModel } from '../../src/ports/providers.ts';
import { makeGguf } from '../fixtures/models/make-gguf.ts';
import { failure } from '../helpers/failure.ts';
import {
  type LocalHarness,
  makeLocalProvider,
  readAnswer,
  runRequest,
} from '../helpers/local-provider.ts';

/** Models that are loaded in their own way, from the file of another one. */

const TEMPLATE = '{% for m in messages %}[{{ m.content }}]{% endfor %}';

let local: LocalHarness;
let created: CreatedModel[];
test.before.each(() => {
  created = [{ name: 'mario', model: 'local/base', chat_template: TEMPLATE }];
  local = makeLocalProvider({ library: { created: () => created } });
  makeGguf(join(local.folder, 'base.gguf'));
});
test.after.each(() => local.close());

const count = async (model: string) =>
  local.provider.countTokens?.(runRequest({ model, prompt: 'abc' }), new AbortController().signal);

test('its template counts for its name alone, and another one is another load', async () => {
  const plain = await count('base');
  assert.is(await count('mario'), '[abc]'.length);
  assert.is(await count('local/mario'), '[abc]'.length);
  assert.is(await count('base'), plain, 'the model that it is made from is as it was');
  const { loaded } = local.models;
  const names = () => loaded(Date.now()).models.map(({ id }) => id);
  assert.equal(names(), ['local/base', 'local/mario']);
  created = [{ name: 'mario', model: 'local/base', chat_template: TEMPLATE.replace('[', '[[') }];
  assert.is(await count('mario'), '[[abc]'.length, 'a changed one counts at once');
  await local.models.unload('mario');
  assert.equal(names(), []);
});

for (const [how, change] of Object.entries({
  'of a Modelfile': (text: string) => {
    created = [{ name: 'mario', model: 'local/base', chat_template: text }];
  },
  'in a file': (text: string) => {
    const path = join(local.folder, 'mario.jinja');
    writeFileSync(path, text);
    created = [{ name: 'mario', model: 'local/base', chat_template: path }];
  },
}))
  test(`an answer continues only with the template that it was begun with: one ${how}`, async () => {
    const request = { model: 'mario', prompt: 'abc', max_tokens: 24, seed: 11 };
    change(TEMPLATE);
    const whole = await readAnswer(local, request);
    const [first] = whole.parts.filter((part) => part.type === 'output');
    assert.ok(first !== undefined && typeof first.model_file === 'string');
    const { text, token_ids, model_file } = first;
    const resume = { text, token_ids, model_file, threads: null, batched: false, parts: [] };
    const rest = async () => {
      const asked = { run_id: 'run_again', attempt: 2, request: runRequest(request), resume };
      let said = '';
      for await (const part of local.provider.stream(asked, new AbortController().signal))
        if (part.type === 'output') said += part.text;
      return said;
    };
    await local.models.unload('mario');
    change(TEMPLATE.replace('[', '[['));
    const { code, message } = await failure(rest());
    assert.is(code, 'model_changed');
    assert.match(message, `another file, template or adapter of mario: ${model_file.slice(0, 19)}`);
    change(TEMPLATE);
    assert.is(text + (await rest()), whole.text);
  });

test('a template makes another identity, and its form of svc the same as its text', async () => {
  const identityOf = async (chat_template?: string) => {
    const template = chat_template === undefined ? {} : { chat_template };
    created = [{ name: 'mario', model: 'local/base', ...template }];
    return local.identify('mario');
  };
  const [own, given, other] = [
    await identityOf(),
    await identityOf(TEMPLATE),
    await identityOf('chatml'),
  ];
  assert.is(own, await local.identify('base'));
  assert.is(new Set([own, given, other]).size, 3);
  assert.is(await identityOf(TEMPLATE), given);
  assert.is(await identityOf(textOfNamed('chatml')), other);
});

test('it is shown under its name, with its template and without the row of the default', async () => {
  const { id, name, template, state, default: isDefault } = await local.models.show('mario');
  assert.equal(
    [id, name, template, state, isDefault],
    ['local/mario', 'mario', 'its own', 'available', false],
  );
  const listed = await local.provider.models(new AbortController().signal);
  assert.not.ok(
    listed.some((model) => model.name === 'mario'),
    'the list has files',
  );
});

test('a form of svc is a template too, and no other file has the name', async () => {
  created = [{ name: 'base', model: 'local/base', chat_template: 'chatml' }];
  const { text } = await readAnswer(local, { model: 'base', max_tokens: 2 });
  assert.ok(text.length > 0);
  assert.is((await local.models.show('base')).template, 'chatml (model_templates)');
});

test('what cannot be loaded so is refused before, by its field', async () => {
  const model = 'local/base';
  const lora = join(local.folder, 'x.lora');
  writeFileSync(lora, 'no gguf');
  const refused: [CreatedModel, code: string, param: string, message: RegExp][] = [
    [
      { name: 'a', model: 'local/none' },
      'model_unknown',
      'model',
      /There is no model "local\/none"/,
    ],
    [
      { name: 'a', model: 'svc-mini', chat_template: 'chatml' },
      'invalid_request',
      'from',
      /The built-in model keeps its template, and has no adapters\./,
    ],
    [
      { name: 'a', model, chat_template: '{% for %}' },
      'invalid_request',
      'template',
      /^The template cannot be rendered \(.+\)\.$/,
    ],
    [
      { name: 'a', model, chat_template: 'no message' },
      'invalid_request',
      'template',
      /it leaves out the message of the user/,
    ],
    [
      { name: 'a', model, adapters: ['/none.gguf'] },
      'invalid_request',
      'adapters',
      /^There is no file \/none\.gguf\.$/,
    ],
    [{ name: 'a', model, adapters: [lora] }, 'model_invalid', 'model', /is not a GGUF file/],
  ];
  for (const [asked, code, param, message] of refused) {
    const error = await failure(local.models.check(asked));
    assert.equal([error.code, error.param], [code, param]);
    assert.match(error.message, message);
  }
  await local.models.check({ name: 'a', model, chat_template: TEMPLATE });
});

test.run();
