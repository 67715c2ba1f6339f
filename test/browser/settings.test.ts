import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import * as assert from 'uvu/assert';
import { ConsoleSuite } from './console-suite.ts';
import { sticksOut, unreadable } from './in-page.ts';

/** The page of settings: where a value comes from, what waits, and the command that changes it. */
const on = new ConsoleSuite('the settings in the console');
const { test } = on;
const says = on.says.bind(on);
const row = (key: string) => `[data-setting="${key}"]`;
const keys = () =>
  on.page
    .locator('.setting')
    .evaluateAll((all) => all.map((one) => one.getAttribute('data-setting') ?? ''));

on.inBrowser(
  'a setting says what it is, where it comes from, and the command that changes it',
  async () => {
    await on.signIn();
    await on.visit('settings');
    await says(`${row('log_level')} .value`, 'info');
    await says('#settings-file', on.home.paths.config);
    assert.not.ok((await keys()).some((key) => key.startsWith('limits.')));
    await on.page.click(`${row('log_level')} summary`);
    await says(`${row('log_level')} p`, /Lowest level/);
    await says(`${row('log_level')} dl`, /SVC_LOG_LEVEL.*at once/);
    await on.page.fill(`${row('log_level')} input`, 'debug');
    await says(`${row('log_level')} pre`, 'svc config set log_level debug');
    await on.page.fill(`${row('log_level')} input`, `it's; rm`);
    await says(`${row('log_level')} pre`, `svc config set log_level 'it'\\''s; rm'`);
    await on.page.fill(`${row('log_level')} input`, 'debug');
    await on.page.getByRole('button', { name: 'Copy the command for log_level' }).click();
    await says('#announce', 'Copied');
    const copied = await on.page.evaluate<string>('navigator.clipboard.readText()');
    assert.is(copied, 'svc config set log_level debug');
    const { code, stderr } = await on.home.svc(copied.split(' ').slice(1));
    assert.is(code, 0, stderr);
    await says(`${row('log_level')} .value`, 'debug');
    await says(`${row('log_level')} .chip`, 'file');
    assert.is(await on.page.locator(`${row('log_level')}[open]`).count(), 1, 'it stays open');
    await on.page.selectOption('#settings-which', 'changed');
    await says('#settings-note', /^\d+ of \d+ settings/);
    assert.ok((await keys()).includes('log_level'));
    assert.not.ok((await keys()).includes('recovery'));
    await on.page.fill('#settings-find', 'queue_runs');
    await on.page.click(`${row('limits.queue_runs')} summary`);
    await says(
      `${row('limits.queue_runs')} pre`,
      /^svc config set limits\.queue_runs \d+ && svc restart$/,
    );
    await on.page.fill('#settings-find', '');
    await on.home.svc(['config', 'set', 'log_level', '--remove']);
  },
  { permissions: ['clipboard-read', 'clipboard-write'] },
);

on.inBrowser('a file that is not in force says so, and is applied', async () => {
  const { config } = on.home.paths;
  const before = existsSync(config) ? readFileSync(config, 'utf8') : '{}';
  await on.signIn();
  await on.visit('settings');
  await says(`${row('recovery')} .value`, 'resume');
  assert.is(await on.page.locator('#settings-pending').isVisible(), false);
  writeFileSync(config, '{ "recovery": "end", "engine_gpu_layers": 0 }');
  await says('#settings-pending-text', /recovery, engine_gpu_layers/);
  await says(`${row('recovery')} .warn`, 'not applied');
  await says(`${row('engine_gpu_layers')} .warn`, 'needs a restart');
  await on.picture('settings-pending');
  await on.page.click('#settings-apply');
  await says(
    '#settings-done',
    'In effect now: recovery. In effect after svc restart: engine_gpu_layers.',
  );
  await says(`${row('recovery')} .value`, 'end');
  await says(
    '#settings-pending-text',
    /: engine_gpu_layers\. It takes effect after svc restart\.$/,
  );
  assert.is(await on.page.locator('#settings-apply').isVisible(), false);
  writeFileSync(config, '{ "recovery": "never" }');
  await says('#settings-pending-text', /next start will fail.*recovery must be one of/);
  assert.is(await on.page.locator('#settings-apply').isVisible(), false);
  writeFileSync(config, before);
  await says('#settings-pending-text', /: recovery\.$/);
  await on.page.click('#settings-apply');
  await on.isGone('#settings-pending');
});

for (const width of [1280, 390])
  on.inBrowser(
    `an open setting is readable, light and dark, ${width} wide`,
    async () => {
      await on.signIn();
      await on.visit('settings');
      await on.page.click(`${row('prices')} summary`);
      await says(`${row('prices')} p`, /million tokens/);
      for (const colorScheme of ['light', 'dark'] as const) {
        await on.page.emulateMedia({ colorScheme });
        assert.equal(await unreadable(on.page), [], colorScheme);
        assert.equal(await sticksOut(on.page), [], colorScheme);
        await on.picture(`settings-${colorScheme}-${width}`);
      }
    },
    { viewport: { width, height: 844 } },
  );

test.run();
