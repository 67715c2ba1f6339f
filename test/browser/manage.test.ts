import * as assert from 'uvu/assert';
import { Hub } from '../helpers/hub.ts';
import { makeModel } from '../helpers/pulls.ts';
import { waitFor } from '../helpers/wait.ts';
import { ConsoleSuite } from './console-suite.ts';

/** Models, providers and figures in the console. */
const on = new ConsoleSuite('models and providers in the console');
const { test } = on;
const says = on.says.bind(on);
const providers = async () =>
  (await on.life.ask((client) => client.call('provider.list', {}))).providers;
const row = (kind: string, id: string) => `[data-${kind}="${id}"]`;
const button = (name: string) => on.page.getByRole('button', { name, exact: true });

on.inBrowser('a provider is added, tested, made the default and removed', async () => {
  await on.signIn();
  await on.visit('models');
  await says(row('provider', 'held'), /available/);
  const base_url = (await providers()).find(({ id }) => id === 'held')?.base_url ?? '';
  await on.page.click('#provider-open');
  await on.page.fill('#provider-id', 'second');
  await on.page.fill('#provider-url', 'http://10.1.2.3:4/v1');
  await on.page.click('#provider-add [type=submit]');
  await says('#providers-said', /address of this machine/);
  await on.page.fill('#provider-url', base_url);
  await on.page.click('#provider-add [type=submit]');
  await says(row('provider', 'second'), /available/);
  await on.isGone('#provider-add');
  await button('Test second').click();
  await waitFor('it was tested', async () =>
    (await providers()).some(({ id, state }) => id === 'second' && state === 'available'),
  );
  await button('Make second the default').click();
  await says(`${row('provider', 'second')} th`, /default/);
  assert.is((await providers()).find((one) => one.default)?.id, 'second');
  await button('Remove second').click();
  await says('#confirm-text', 'Remove the provider second?');
  await on.page.keyboard.press('Escape');
  await on.isGone('#confirm');
  assert.ok(
    (await providers()).some(({ id }) => id === 'second'),
    'it is kept',
  );
  await button('Remove second').click();
  await on.page.click('#confirm-yes');
  await on.page.locator(row('provider', 'second')).waitFor({ state: 'detached' });
  assert.not.ok((await providers()).some(({ id }) => id === 'second'));
  assert.is(await button('Remove local').count(), 0, 'the built-in engine stays');
  on.forgive(/400/);
});

on.inBrowser('a local model is loaded and unloaded', async () => {
  await on.signIn();
  await on.visit('models');
  const mini = row('model', 'local/svc-mini');
  await says(mini, /built in/);
  const isLoaded = async () =>
    (await on.life.ask((client) => client.call('model.ps', {}))).models.some(
      ({ state }) => state === 'idle',
    );
  if (await isLoaded()) await button('Unload local/svc-mini').click();
  await button('Load local/svc-mini').click();
  await says(`${mini} .chip`, 'idle');
  assert.ok(await isLoaded());
  await says('#models-note', /reserved for models in memory/);
  await button('Unload local/svc-mini').click();
  await says(`${mini} .chip`, /^(available|loaded)$/);
  await waitFor('it left memory', async () => !(await isLoaded()));
});

on.inBrowser(
  'a model is downloaded with its progress, stopped, continued and deleted',
  async () => {
    const hub = await Hub.start({ 'small.gguf': makeModel(512) });
    try {
      await on.signIn();
      await on.visit('models');
      hub.next.push({ hangAfter: 100_000 });
      await on.page.fill('#pull-reference', `${hub.url}/small.gguf`);
      await on.page.click('#pull-start');
      await says('#pull-text', /small\.gguf · .*[KM]iB of/);
      await on.page.click('#pull-stop');
      await says('#pull-said', /part is kept/);
      await on.page.click('#pull-start');
      await says('#pull-text', /The model is there/);
      const model = row('model', 'local/small');
      await on.page.locator(model).waitFor();
      await button('Remove local/small').click();
      await on.page.click('#confirm-yes');
      await on.page.locator(model).waitFor({ state: 'detached' });
      const { models } = await on.life.ask((client) => client.call('model.list', {}));
      assert.not.ok(models.some(({ id }) => id === 'local/small'));
      await on.page.fill('#pull-reference', 'no such reference');
      await on.page.click('#pull-start');
      await says('#pull-said', /\w/);
    } finally {
      await hub.stop();
    }
    on.forgive(/40[04]/);
  },
);

on.inBrowser('the overview has charts of what happened, each also in words', async () => {
  await on.signIn();
  await on.ask('What is a chart?', { provider: 'local' });
  await says('#chat-state', 'completed');
  await on.visit('overview');
  for (const [chart, said] of Object.entries({
    rate: /Runs a minute: now \d+, at most \d+/,
    first: /Time to first token: now .* m?s/,
    // An answer that came at once has no speed.
    speed: /Tokens a second: (nothing yet|now .* tokens\/s)/,
    memory: /Memory of the daemon: now \d+ MiB/,
  }))
    await waitFor(`the chart ${chart} says ${said}`, async () =>
      said.test((await on.page.locator(`#chart-${chart} svg`).getAttribute('aria-label')) ?? ''),
    );
  assert.ok((await on.page.locator('#chart-rate rect').count()) >= 1);
  await says(row('usage', 'local/svc-mini'), /svc-mini/);
  await says('#queue-text', /0 active, 0 waiting/);
});

test.run();
