import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { ProviderConfig } from '../../../src/config/providers/provider.ts';
import type { RunInput } from '../../../src/contract/contract.ts';
import type { SvcError } from '../../../src/errors.ts';
import { chooseRoutes } from '../../../src/runtime/runs/route.ts';
import { providerConfig } from '../../helpers/provider-config.ts';

const provider = (kind: 'local' | 'cloud', model: string | null) => providerConfig({ kind, model });
const providers = new Map<string, ProviderConfig | null>([
  ['local', null],
  ['ollama', provider('local', 'llama3')],
  ['openai', provider('cloud', 'gpt')],
  ['bare', provider('cloud', null)],
]);
const config = {
  default_provider: 'local',
  default_cloud_provider: null as string | null,
  model: 'svc-mini',
  aliases: {} as Record<string, string>,
};
const route = (
  input: Partial<RunInput>,
  changes: Partial<typeof config> = {},
  known = providers,
  lists: Record<string, string[]> = {},
) =>
  chooseRoutes({ prompt: 'x', ...input }, { ...config, ...changes }, known, (id) =>
    Object.hasOwn(lists, id) ? (lists[id] ?? null) : null,
  )[0];
const codeOf = (work: () => unknown) => {
  try {
    return work() && null;
  } catch (error) {
    return (error as SvcError).code;
  }
};

test('without options: the default provider and its model, on this machine', () => {
  assert.equal(route({}), { provider: 'local', model: 'svc-mini', cloud: false });
  assert.equal(route({}, { default_provider: 'openai' }), {
    provider: 'openai',
    model: 'gpt',
    cloud: true,
  });
});

test('a model names its provider, a path or a .gguf file the local engine', () => {
  assert.equal(route({ model: 'openai/gpt-5' }), {
    provider: 'openai',
    model: 'gpt-5',
    cloud: true,
  });
  assert.equal(route({ model: 'qwen/qwen2.5', provider: 'ollama' }), {
    provider: 'ollama',
    model: 'qwen/qwen2.5',
    cloud: false,
  });
  assert.equal(route({ model: '/m/x.gguf' }), {
    provider: 'local',
    model: '/m/x.gguf',
    cloud: false,
  });
  assert.equal(route({ model: 'other' }), { provider: 'local', model: 'other', cloud: false });
});

test('a name that is blank behind its provider is no wish for the default model', () => {
  for (const model of ['local/', 'ollama/', 'openai/ ', 'unknown/', ' ', '\t'])
    assert.is(
      codeOf(() => route({ model })),
      'model_unknown',
      JSON.stringify(model),
    );
  assert.is(
    codeOf(() => route({ model: 'ollama/', provider: 'ollama' })),
    'model_unknown',
  );
  assert.is(
    codeOf(() => route({ model: ['ollama/a', 'local/'] })),
    'model_unknown',
  );
  assert.is(route({ model: 'a/', provider: 'ollama' }).model, 'a/');
});

test('--cloud selects the default cloud provider, or the only one', () => {
  const one = new Map([...providers].filter(([id]) => id !== 'bare'));
  assert.is(route({ cloud: true }, {}, one).provider, 'openai');
  assert.is(route({ cloud: true }, { default_cloud_provider: 'openai' }).provider, 'openai');
  assert.is(route({ cloud: true, provider: 'openai' }).cloud, true);
  assert.throws(
    () => route({ cloud: true }),
    ({ code, hint }: SvcError) =>
      code === 'cloud_unconfigured' &&
      /svc config set default_cloud_provider \S+$/.test(hint ?? ''),
  );
  assert.is(
    codeOf(() => route({ cloud: true }, {}, new Map([['local', null]]))),
    'cloud_unconfigured',
  );
});

test('contradictions and unknown names are refused with their code', () => {
  for (const [input, code] of [
    [{ cloud: true, provider: 'ollama' }, 'usage'],
    [{ cloud: true, provider: 'local' }, 'usage'],
    [{ provider: 'ollama', model: 'openai/gpt' }, 'usage'],
    [{ provider: 'nope' }, 'provider_unknown'],
    [{ provider: 'bare' }, 'model_unknown'],
  ] as const) {
    assert.is(
      codeOf(() => route(input)),
      code,
    );
  }
});

test('an alias leads to a model once, and comes before everything else', () => {
  const aliases = {
    'gpt-4o': 'openai/real',
    real: 'gpt-4o',
    'ollama/x': 'ollama/y',
    small: 'tiny',
  };
  const to = (model: string) => {
    const { provider, model: name } = route({ model }, { aliases });
    return `${provider}/${name}`;
  };
  assert.is(to('gpt-4o'), 'openai/real');
  assert.is(to('real'), 'local/gpt-4o');
  assert.is(to('ollama/x'), 'ollama/y');
  assert.is(to('small'), 'local/tiny');
  for (const name of ['constructor', 'toString', '__proto__']) assert.is(to(name), `local/${name}`);
});

test('a name alone goes to the only other provider here that lists it', () => {
  const two = new Map([...providers, ['studio', provider('local', null)] as const]);
  const lists = {
    local: ['svc-mini', 'both'],
    ollama: ['llama3', 'both', 'shared'],
    studio: ['shared'],
    openai: ['gpt', 'shared'],
  };
  const of = (input: Partial<RunInput>, changes = {}) => route(input, changes, two, lists).provider;
  assert.is(of({ model: 'svc-mini' }), 'local');
  assert.is(of({ model: 'llama3' }), 'ollama');
  assert.is(of({ model: 'both' }), 'local', 'the default provider is first');
  assert.is(of({ model: 'new' }), 'local', 'its list may be old');
  assert.is(of({ model: 'llama3', provider: 'local' }), 'local');
  assert.is(of({ model: 'gpt', cloud: true }, { default_cloud_provider: 'openai' }), 'openai');
  assert.is(of({ model: 'llama3' }, { default_provider: 'bare' }), 'bare', 'its list is unknown');
  for (const model of ['gpt', 'shared'])
    assert.is(
      codeOf(() => of({ model })),
      'model_unknown',
    );
});

test('no name alone sends a prompt to the cloud', () => {
  const lists = { local: ['svc-mini'], openai: ['gpt'] };
  try {
    route({ model: 'gpt' }, {}, providers, lists);
    assert.unreachable();
  } catch (error) {
    assert.match((error as SvcError).message, 'Only cloud providers have the model gpt: openai.');
    assert.match((error as SvcError).hint, 'openai/gpt');
  }
});

test.run();
