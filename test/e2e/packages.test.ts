import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { routes } from '../../src/daemon/routes.ts';
import { connect } from '../../src/transport/control/client.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { codeOf } from '../helpers/wait.ts';
import { type Life, serve } from '../torture/daemon.ts';
import { ask } from '../torture/http.ts';

/** An adapter `npm:<package>` is code. Only the file of the user makes the daemon load it. */
const test = suite<{ home: Home; life: Life; loaded: string }>('packages');

const EVIL = { adapter: 'npm:evil', kind: 'cloud', model: 'm' };

test.before.each((context) => {
  context.home = makeHome();
  const folder = join(context.home.paths.adapters, 'node_modules', 'evil');
  context.loaded = join(context.home.folder, 'evil-was-loaded');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const manifest = { name: 'evil', version: '1.0.0', type: 'module', main: 'index.js' };
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest));
  const code = `import { writeFileSync } from 'node:fs';
    writeFileSync(${JSON.stringify(context.loaded)}, '');
    export const createEvil = () => ({ languageModel: () => { throw new Error('evil'); } });`;
  writeFileSync(join(folder, 'index.js'), code);
});
test.after.each(async ({ home, life }) => {
  await life.kill();
  await home.close();
});

test('the package that the file of the user names is loaded by a run', async (context) => {
  const { home, loaded } = context;
  writeFileSync(home.paths.config, JSON.stringify({ providers: { mine: EVIL } }), { mode: 0o600 });
  context.life = await serve(home);
  assert.not.ok(existsSync(loaded), 'the start loads nothing');
  await home.svc(['run', 'hi', '--provider', 'mine']);
  assert.ok(existsSync(loaded));
});

test('no request over HTTP or the local socket makes the daemon load one', async (context) => {
  const { home, loaded } = context;
  context.life = await serve(home);
  const lab = ['provider', 'add', 'lab', '--base-url', 'http://127.0.0.1:1/v1', '--model', 'm'];
  assert.is((await home.svc(lab)).code, 0);

  const client = await connect(home.paths.socket);
  const named = { id: 'evil', ...EVIL };
  assert.is(await codeOf(client.call('provider.add', named)), 'invalid_request');
  assert.is(await codeOf(client.call('provider.set', { ...named, id: 'lab' })), 'invalid_request');
  assert.is(
    await codeOf(client.call('run.start', { prompt: 'x', provider: 'npm:evil' })),
    'provider_unknown',
  );
  client.close();

  const changing = routes.filter(({ method, path }) => method !== 'GET' && !/session/.test(path));
  assert.ok(changing.length > 10);
  for (const { method, path } of changing) {
    if (/shutdown|stop|lifecycle/.test(path)) continue;
    const body = {
      ...named,
      providers: { evil: EVIL },
      provider: 'npm:evil',
      model: 'npm:evil/m',
      prompt: 'x',
      input: 'x',
      messages: [{ role: 'user', content: 'x' }],
      max_tokens: 1,
    };
    await ask(home, path.replace(/:\w+/, 'evil'), { method, body }).catch(() => null);
  }
  for (const id of ['evil', 'lab']) await home.svc(['run', 'hi', '--provider', id, '--no-start']);
  const { stdout } = await home.svc(['provider', 'list', '--json']);
  const { providers } = JSON.parse(stdout) as { providers: { id: string; adapter: string }[] };
  assert.equal(
    providers.map(({ id, adapter }) => `${id} ${adapter}`),
    ['local llama.cpp', 'lab openai-compatible'],
  );
  assert.not.ok(existsSync(loaded));
});

test.run();
