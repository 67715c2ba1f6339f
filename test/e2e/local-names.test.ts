import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeGguf } from '../fixtures/models/make-gguf.ts';
import { makeHome } from '../helpers/svc.ts';
import { Upstream } from '../helpers/upstream.ts';

test('the name of a local model leads to it as soon as it is there, also beside another default provider', async () => {
  const home = makeHome();
  const upstream = await Upstream.start((exchange) =>
    exchange.reply(200, { object: 'list', data: [{ id: 'm1' }, { id: 'm2' }] }),
  );
  const ok = async (...args: string[]) => {
    const { code, stdout, stderr } = await home.svc(args);
    assert.is(code, 0, `${args.join(' ')}: ${stderr}`);
    return stdout;
  };
  const newest = async () =>
    JSON.parse(await ok('runs', 'list', '--json', '--limit', '1')).runs[0] as {
      provider: string;
      model: string;
    };
  try {
    await ok('start');
    await ok('provider', 'add', 'lab', '--base-url', upstream.base_url, '--kind', 'local');
    await ok('provider', 'default', 'lab');
    const file = join(home.paths.home, 'tiny.gguf');
    makeGguf(file, { context: 512, template: null });
    await ok('model', 'import', file);
    await ok('run', 'hello', '--model', 'tiny', '--max-tokens', '2');
    const { provider, model } = await newest();
    assert.equal([provider, model], ['local', 'tiny']);
    assert.match(await ok('model', 'unload', 'tiny'), /tiny/);
    // The default of the local engine is removed with its file.
    await ok('model', 'use', 'tiny');
    await ok('model', 'remove', 'tiny');
    await ok('provider', 'default', 'local');
    await ok('run', 'hello', '--max-tokens', '2');
    assert.is((await newest()).model, 'svc-mini');
  } finally {
    await home.close();
    await upstream.stop();
  }
});

test('a local model is found by its name while the default model of the local engine is missing', async () => {
  const home = makeHome({ SVC_MODEL: 'absent' });
  const upstream = await Upstream.start((exchange) =>
    exchange.reply(200, { object: 'list', data: [{ id: 'm1' }] }),
  );
  try {
    await home.svc(['start']);
    await home.svc(['provider', 'add', 'lab', '--base-url', upstream.base_url, '--kind', 'local']);
    await home.svc(['provider', 'default', 'lab']);
    const { code, stderr } = await home.svc(['run', 'hello', '-m', 'svc-mini']);
    assert.is(code, 0, stderr);
    const { stdout } = await home.svc(['runs', 'list', '--json', '--limit', '1']);
    const [{ provider, model }] = JSON.parse(stdout).runs;
    assert.equal([provider, model], ['local', 'svc-mini']);
  } finally {
    await home.close();
    await upstream.stop();
  }
});

test.run();
