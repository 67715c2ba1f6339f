import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { answerScripted } from '../clients/scripted-model.ts';
import { makeHome } from '../helpers/svc.ts';
import { TOOL_BOMBS } from '../helpers/tool-bombs.ts';
import { Upstream } from '../helpers/upstream.ts';
import { waitFor } from '../helpers/wait.ts';
import { watch } from '../helpers/watch-life.ts';
import { webTools } from '../helpers/web-tools.ts';
import { type Life, serve } from '../torture/daemon.ts';

/** Tool servers whose answers need any time and memory, at the built daemon. */
const test = suite('bombs of tool servers');

const FORMS = fileURLToPath(new URL('../fixtures/mcp/forms.mjs', import.meta.url));
const IN_PROCESSES = ['numbers', 'empty objects', 'requests', 'notifications', 'empty lines'];

const start = (life: Life, server: string) =>
  life.ask((client) =>
    client.call('run.start', { prompt: `Call ${server}__get.`, tool_servers: [server] }),
  );

test('each costs its server by name, and nothing else notices', async () => {
  const bombs = Object.values(TOOL_BOMBS);
  const webs = await Promise.all(bombs.map(({ does }) => webTools({ 'tools/call': does })));
  const good = await webTools();
  const upstream = await Upstream.start(answerScripted);
  const home = makeHome();
  const folder = dirname(home.paths.config);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const providers = { up: { base_url: upstream.base_url, model: 'scripted' } };
  writeFileSync(home.paths.config, JSON.stringify({ default_provider: 'up', providers }));
  const svc = { policy: 'allow' };
  const entries = [
    ['good', { url: good.url, svc }],
    ...webs.map(({ url }, index) => [`web${index}`, { url, svc }]),
    ...IN_PROCESSES.map((form, index) => [
      `child${index}`,
      { command: process.execPath, args: [FORMS, form], svc },
    ]),
  ];
  writeFileSync(
    join(folder, 'mcp.json'),
    JSON.stringify({ mcpServers: Object.fromEntries(entries) }),
  );
  const life = await serve(home);
  const record = async (name: string) => {
    const { servers } = await life.ask((client) => client.call('mcp.list'));
    return servers.find((server) => server.name === name);
  };
  const works = async () => {
    const { id } = await start(life, 'good');
    const run = await waitFor('the other run has ended', async () => {
      const found = await life.ask((client) => client.call('run.get', { id }));
      return found.ended_at !== null && found;
    });
    assert.is(run.output, 'The tool said: got');
  };
  try {
    await works();
    const over = await watch(life);
    for (const [index, { reason }] of bombs.entries()) {
      const name = `web${index}`;
      const { id } = await start(life, name);
      await works();
      const run = await waitFor(`the call at ${name} is lost`, async () => {
        const found = await life.ask((client) => client.call('run.get', { id }));
        return found.tool_calls?.[0]?.state === 'lost' && found;
      });
      assert.is(run.ended_at, null, 'a person decides');
      const said = await waitFor(`why ${name} was ended`, async () => (await record(name))?.reason);
      assert.match(said, reason);
    }
    for (const [index] of IN_PROCESSES.entries()) {
      const name = `child${index}`;
      await home.svc(['mcp', 'test', name]);
      assert.match((await record(name))?.reason ?? '', /was ended: (a message has|it)/);
    }
    await works();
    const seen = await over();
    assert.ok(seen.work_ms < 1000, `it worked ${seen.work_ms} ms until it answered /livez`);
    assert.ok(seen.memory < 300_000_000, `${seen.memory} bytes more than before`);
  } finally {
    await life.kill();
    await home.close();
    await upstream.stop();
    for (const web of [...webs, good]) web.close();
  }
});

test.run();
