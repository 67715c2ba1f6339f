import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { fixedLimits } from '../../src/limits.ts';
import { makeHome } from '../helpers/svc.ts';
import { Upstream } from '../helpers/upstream.ts';
import { waitFor } from '../helpers/wait.ts';
import { serve } from '../torture/daemon.ts';

test('an answer that ends each boot of the built daemon is given up, and the next start serves', async () => {
  let poisoned = 0;
  const upstream = await Upstream.start(async (exchange) => {
    if (exchange.received.path.endsWith('/models'))
      return exchange.reply(200, { object: 'list', data: [{ id: 'm', object: 'model' }] });
    if (exchange.received.body.includes('poison')) {
      poisoned += 1;
      return;
    }
    exchange.open();
    await exchange.text('fine');
    await exchange.finish();
    await exchange.done();
  });
  const home = makeHome();
  mkdirSync(dirname(home.paths.config), { recursive: true, mode: 0o700 });
  const providers = { up: { base_url: upstream.base_url, model: 'm' } };
  writeFileSync(home.paths.config, JSON.stringify({ default_provider: 'up', providers }));
  let life = await serve(home);
  try {
    const start = (prompt: string) => life.ask((client) => client.call('run.start', { prompt }));
    const { id } = await start('poison');
    for (let death = 1; death <= fixedLimits.run_losses + 1; death += 1) {
      await waitFor('it is asked', () => poisoned === death);
      await life.kill();
      life = await serve(home);
    }
    const run = await life.ask((client) => client.call('run.get', { id }));
    assert.equal([run.state, run.error?.code], ['interrupted', 'run_given_up']);
    const other = await start('else');
    const get = () => life.ask((client) => client.call('run.get', { id: other.id }));
    await waitFor('the other run has ended', async () => (await get()).ended_at !== null);
    assert.is((await get()).output, 'fine');
    assert.is(poisoned, fixedLimits.run_losses + 1);
  } finally {
    await life.kill();
    await home.close();
    await upstream.stop();
  }
});

test.run();
