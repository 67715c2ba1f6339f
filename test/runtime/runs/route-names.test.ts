import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { ProviderConfig } from '../../../src/config/providers/provider.ts';
import type { RunInput } from '../../../src/contract/contract.ts';
import type { SvcError } from '../../../src/errors.ts';
import { chooseRoutes } from '../../../src/runtime/runs/route.ts';
import { providerConfig } from '../../helpers/provider-config.ts';

const studio = providerConfig({ model: 'usual' });
const providers = new Map<string, ProviderConfig | null>([
  ['local', null],
  ['studio', studio],
]);
const route = (input: Partial<RunInput>) =>
  chooseRoutes(
    { prompt: 'x', ...input },
    { default_provider: 'local', default_cloud_provider: null, model: 'svc-mini', aliases: {} },
    providers,
  )[0];

test('other servers may name their models after files too', () => {
  assert.equal(route({ provider: 'studio', model: 'phi.gguf' }), {
    provider: 'studio',
    model: 'phi.gguf',
    cloud: false,
  });
  assert.equal(route({ provider: 'studio', model: '/models/phi.gguf' }), {
    provider: 'studio',
    model: '/models/phi.gguf',
    cloud: false,
  });
  assert.equal(route({ model: 'studio/phi.gguf' }), {
    provider: 'studio',
    model: 'phi.gguf',
    cloud: false,
  });
  assert.equal(route({ provider: 'local', model: './phi.gguf' }), {
    provider: 'local',
    model: './phi.gguf',
    cloud: false,
  });
  assert.is(route({ model: 'phi.gguf' }).provider, 'local');
});

test('a tag `latest` is left out, unless a model or an alias is called so', () => {
  const aliases = { made: 'studio/phi', 'other:latest': 'studio/other' };
  const config = { default_provider: 'local', default_cloud_provider: null, model: 'svc-mini' };
  const named = (model: string) => {
    const listed = (id: string) => (id === 'studio' ? ['llama3:latest', 'phi'] : ['svc-mini']);
    const [{ provider, model: name }] = chooseRoutes(
      { model },
      { ...config, aliases },
      providers,
      listed,
    );
    return `${provider}/${name}`;
  };
  assert.is(named('svc-mini:latest'), 'local/svc-mini');
  assert.is(named('local/svc-mini:latest'), 'local/svc-mini');
  assert.is(named('studio/phi:latest'), 'studio/phi');
  assert.is(named('studio/llama3:latest'), 'studio/llama3:latest');
  assert.is(named('llama3:latest'), 'studio/llama3:latest');
  assert.is(named('made:latest'), 'studio/phi');
  assert.is(named('other:latest'), 'studio/other');
  assert.is(named('qwen3:0.6b'), 'local/qwen3:0.6b');
});

test('the id of a provider alone means its default model, also in a list', () => {
  const usual = { provider: 'studio', model: 'usual', cloud: false };
  assert.equal(route({ model: 'studio' }), usual);
  const config = { default_provider: 'local', default_cloud_provider: null, model: 'svc-mini' };
  const chain = { model: ['studio/other', 'studio', 'local'] };
  assert.equal(
    chooseRoutes(chain, { ...config, aliases: {} }, providers).map(({ model }) => model),
    ['other', 'usual', 'svc-mini'],
  );
  const listed = (id: string) => (id === 'local' ? ['studio'] : []);
  const [named] = chooseRoutes({ model: 'studio' }, { ...config, aliases: {} }, providers, listed);
  assert.equal(named, { provider: 'local', model: 'studio', cloud: false });
});

test('without a default model, the only model of the provider answers', () => {
  const bare = new Map([['studio', providerConfig({ model: null })]]);
  const asked = (listed: string[] | null) =>
    chooseRoutes(
      { provider: 'studio' },
      { default_provider: 'local', default_cloud_provider: null, model: 'svc-mini', aliases: {} },
      bare,
      () => listed,
    )[0];
  assert.is(asked(['phi']).model, 'phi');
  const refused = (listed: string[] | null) => {
    let error: SvcError | null = null;
    try {
      asked(listed);
    } catch (thrown) {
      error = thrown as SvcError;
    }
    assert.is(error?.code, 'model_unknown');
    return `${error?.message} ${error?.hint}`;
  };
  assert.match(refused(['phi', 'qwen']), 'It has phi, qwen.');
  assert.match(refused(['phi', 'qwen']), '--model studio/phi');
  assert.match(refused([...'abcdefg']), 'It has a, b, c, d, e, …');
  assert.match(refused(null), 'svc model list');
});

test.run();
