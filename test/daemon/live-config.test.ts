import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { loadConfig } from '../../src/config/config.ts';
import { settingKeys } from '../../src/config/setting-keys.ts';
import { LiveConfig } from '../../src/daemon/live-config.ts';

const test = suite<{ folder: string }>('the settings as clients see them');

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), 'svc-live-'));
});
test.after.each(({ folder }) => rmSync(folder, { recursive: true }));

function live(folder: string, text: string, env: NodeJS.ProcessEnv = {}) {
  const file = join(folder, 'config.json');
  writeFileSync(file, text);
  const load = () => loadConfig(file, { env });
  const made = new LiveConfig({ config: load(), reload: load, onChange: () => {} });
  const one = (key: string) => {
    const found = made.settings().settings.find((setting) => setting.key === key);
    assert.ok(found !== undefined, key);
    return found;
  };
  return { made, file, one };
}

test('every setting has its value, its source and the texts of the schema', ({ folder }) => {
  const { made, one } = live(folder, '{ "recovery": "end" }', { SVC_LOG_LEVEL: 'warn' });
  const { settings } = made.settings();
  assert.equal(
    settings.map(({ key }) => key),
    settingKeys(),
  );
  for (const { meaning, expects, variable } of settings)
    assert.ok(meaning !== '' && expects !== '' && /^SVC_/.test(variable));
  const { value, source, change, pending, default: usual } = one('log_level');
  assert.equal(
    [value, source, change, pending, usual],
    ['warn', 'environment', 'live', null, 'info'],
  );
  assert.equal([one('recovery').value, one('recovery').source], ['end', 'file']);
  assert.equal([one('http').change, one('presets').change], ['restart', 'command']);
});

test('what the file says and the daemon does not do is beside its value', ({ folder }) => {
  const { made, file, one } = live(folder, '{}');
  writeFileSync(file, '{ "recovery": "restart", "limits": { "queue_runs": 7 } }');
  assert.equal(made.settings().pending, ['recovery', 'limits.queue_runs']);
  assert.equal([one('recovery').value, one('recovery').pending], ['resume', { value: 'restart' }]);
  assert.equal(one('limits.queue_runs').pending, { value: 7 });
  assert.equal(made.apply(), { applied: ['recovery'], after_restart: ['limits.queue_runs'] });
  assert.equal([one('recovery').value, one('recovery').pending], ['restart', null]);
  writeFileSync(file, '{ "recovery": 1 }');
  assert.match(made.settings().problem ?? '', /recovery must be/);
});

test('no part of a value that may be a secret is shown', ({ folder }) => {
  const secret = 'hunter2';
  const { made, one } = live(
    folder,
    JSON.stringify({
      otlp_endpoint: `https://user:${secret}@traces.example:4318/v1?key=${secret}`,
      history: { redact: [secret] },
      providers: {
        mine: {
          adapter: 'openai',
          base_url: 'http://127.0.0.1:9/v1',
          headers: { 'x-team': secret },
        },
      },
    }),
  );
  assert.not.match(JSON.stringify(made.settings()), secret);
  assert.is(one('otlp_endpoint').value, 'https://traces.example:4318/v1 (the rest is not shown)');
  assert.equal(
    [one('history.redact').value, one('history.redact').hidden],
    ['1 (not shown)', true],
  );
  assert.equal([one('log_level').hidden, one('otlp_endpoint').hidden], [false, true]);
});

test.run();
