import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { answerScripted } from '../clients/scripted-model.ts';
import { SCHEMA_BOMBS } from '../helpers/schema-bombs.ts';
import { makeHome } from '../helpers/svc.ts';
import { scripted } from '../helpers/tool-servers.ts';
import { Upstream } from '../helpers/upstream.ts';
import { waitFor } from '../helpers/wait.ts';
import { watch } from '../helpers/watch-life.ts';
import { type Life, serve } from '../torture/daemon.ts';

/** A tool server whose schemas need any time and memory, at the built daemon. */
const test = suite('bombs in schemas');

const FINE = { name: 'fine', inputSchema: { type: 'object', properties: { a: {} } } };

async function boot(names: readonly string[], denied: readonly string[] = []) {
  const upstream = await Upstream.start(answerScripted);
  const home = makeHome();
  const folder = dirname(home.paths.config);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const providers = { up: { base_url: upstream.base_url, model: 'scripted' } };
  writeFileSync(home.paths.config, JSON.stringify({ default_provider: 'up', providers }));
  const tools = join(folder, 'tools.json');
  const bombs = names.map((name) => ({ name, inputSchema: SCHEMA_BOMBS[name]?.schema }));
  writeFileSync(tools, JSON.stringify([FINE, ...bombs]));
  const rules = Object.fromEntries(denied.map((name) => [name, 'deny']));
  const mcpServers = {
    evil: scripted(['tools', tools], { policy: 'allow', tools: rules }),
    good: scripted(['tools', tools], { policy: 'allow' }),
  };
  writeFileSync(join(folder, 'mcp.json'), JSON.stringify({ mcpServers }));
  return { home, upstream, life: await serve(home) };
}

const start = (life: Life, server: string, tool: string, args: string) =>
  life.ask((client) =>
    client.call('run.start', {
      prompt: `Call ${server}__${tool} with ${args}`,
      tool_servers: [`${server}/${tool}`],
    }),
  );

const ended = (life: Life, id: string) =>
  waitFor(
    `${id} has ended`,
    async () => {
      const run = await life.ask((client) => client.call('run.get', { id }));
      return run.ended_at !== null && run;
    },
    { within_ms: 120_000 },
  );

test('each costs its call by name, and nothing else notices, also after a kill', async () => {
  const names = ['anyOf', 'oneOf', 'propertyNames', 'unevaluatedProperties'];
  const { home, upstream, life: first } = await boot(names);
  let life = first;
  try {
    const over = await watch(life);
    const started = await Promise.all(names.map((name) => start(life, 'evil', name, '{"a":1}')));
    const other = await start(life, 'good', 'fine', '{"a":1}');
    assert.is((await ended(life, other.id)).output, 'The tool said: fine');
    for (const [index, { id }] of started.entries()) {
      const { state, tool_calls } = await ended(life, id);
      assert.is(state, 'completed');
      const [call] = tool_calls ?? [];
      assert.equal([call?.state, call?.decided_by], ['denied', 'svc']);
      assert.match(
        call?.result ?? '',
        new RegExp(
          `^The call was not carried out: The schema of evil/${names[index]} needs (more than 5000 ms|too much memory), so `,
        ),
      );
    }
    const seen = await over();
    // In the daemon itself each of them would take minutes.
    assert.ok(seen.work_ms < 1000, `it worked ${seen.work_ms} ms until it answered /livez`);
    assert.ok(seen.memory < 300_000_000, `${seen.memory} bytes more than before`);

    const { id } = await start(life, 'evil', 'anyOf', '{"a":1}');
    await waitFor('the call is made', async () => {
      const events = await life.ask((client) => client.call('run.get', { id }));
      return (events.tool_calls?.length ?? 0) > 0 || events.ended_at !== null;
    });
    await life.kill();
    life = await serve(home);
    assert.is((await ended(life, id)).state, 'completed');
  } finally {
    await life.kill();
    await home.close();
    await upstream.stop();
  }
});

test('a tool that is denied is denied before its schema is looked at', async () => {
  const { home, upstream, life } = await boot(['anyOf'], ['anyOf']);
  try {
    const { id } = await start(life, 'evil', 'anyOf', '{"a":1}');
    const { tool_calls } = await ended(life, id);
    const [call] = tool_calls ?? [];
    assert.equal(
      [call?.state, call?.decided_by, call?.result],
      [
        'denied',
        'policy',
        'The call was not carried out: The configuration does not allow this tool.',
      ],
    );
  } finally {
    await life.kill();
    await home.close();
    await upstream.stop();
  }
});

test.run();
