import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { runtimeOf } from '../helpers/daemon.ts';
import { gate } from '../helpers/scripted-provider.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { scripted } from '../helpers/tool-servers.ts';
import { type Exchange, Upstream } from '../helpers/upstream.ts';
import { waitFor } from '../helpers/wait.ts';
import { type Life, serve } from '../torture/daemon.ts';

/**
 * A daemon that is stopped with SIGSTOP for longer than its limits, as a paused container is. What
 * came meanwhile lies in its sockets, so nothing of it is late.
 */
const test = suite('a daemon that is stopped for a while');

/** Long enough for a busy machine to begin all work before the stop. */
const LIMIT_MS = 12_000;
const names = ['idle', 'first_output', 'target_wait', 'tool', 'embed', 'probe', 'approval'];
const limits = Object.fromEntries(names.map((name) => [`${name}_ms`, LIMIT_MS]));

let home: Home;
let life: Life;
let upstream: Upstream;
const stopped = gate();
/** The prompts that were asked, and `models`, `embeddings`. */
const asked = new Set<string>();
let isSlow = false;
/** The long answer was sent whole. */
let isSent = false;

async function answer(x: Exchange): Promise<void> {
  if (x.received.path.endsWith('/models')) {
    if (isSlow) asked.add('models');
    if (isSlow) await stopped.opened;
    return x.reply(200, { data: [{ id: 'm' }] });
  }
  if (x.received.path.endsWith('/embeddings')) {
    asked.add('embeddings');
    await stopped.opened;
    return x.reply(200, { data: [{ index: 0, embedding: [1, 2] }], usage: { prompt_tokens: 2 } });
  }
  const text = JSON.stringify(x.json.messages);
  const prompt = /stream|first|second|tool|person/.exec(text)?.[0] ?? '';
  if (text.includes('"role":"tool"')) return x.answer('it has the result');
  if (prompt === 'tool') return x.call([['shelf__count', { id: 'a' }]]);
  if (prompt === 'person') return x.call([['shelf__put', { id: 'a' }]]);
  asked.add(prompt);
  x.open();
  if (prompt !== 'stream') {
    await stopped.opened;
    return x.answer(`late for ${prompt}`);
  }
  await x.text('begin');
  await stopped.opened;
  const until = performance.now() + LIMIT_MS + 2000;
  while (performance.now() < until) {
    await x.text('.');
    await new Promise((next) => setTimeout(next, 100));
  }
  await x.text('end');
  await x.finish();
  await x.usage(3, 9);
  await x.done();
  isSent = true;
}

test.before(async () => {
  upstream = await Upstream.start(answer);
  home = makeHome();
  const provider = { adapter: 'openai-compatible', base_url: upstream.base_url, kind: 'local' };
  const providers = { up: provider, other: provider };
  writeFileSync(home.paths.config, JSON.stringify({ providers, limits }));
  const env = { COUNT_FILE: join(home.folder, 'count'), WORK_MS: '4000' };
  const shelf = scripted(['reports'], { tools: { count: 'allow', put: 'ask' } }, env);
  writeFileSync(join(home.folder, 'mcp.json'), JSON.stringify({ mcpServers: { shelf } }));
  life = await serve(home);
});
test.after(async () => {
  life.child.kill('SIGCONT');
  await life.stop();
  await home.close();
  await upstream.stop();
});

type Input = { prompt: string; model: string | string[]; tool_servers?: string[] };
const start = ({ prompt, ...input }: Input) =>
  life.ask((client) => client.call('run.start', { prompt, ...input }));
const show = (id: string) => life.ask((client) => client.call('run.get', { id }));

test('what came while it was stopped counts, though each limit has passed', async () => {
  const { stdout } = await home.svc(['token']);
  const headers = { authorization: `Bearer ${stdout.trim()}`, 'content-type': 'application/json' };
  const { http } = (await runtimeOf(home)).addresses;
  const post = (path: string, body: object) =>
    fetch(`${http}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
  const person = await start({ prompt: 'person', model: 'up/m', tool_servers: ['shelf'] });
  const [waiting] = await waitFor('it waits for a person', async () => {
    const { approvals } = await life.ask((client) => client.call('approval.list', {}));
    return approvals.length > 0 && approvals;
  });
  isSlow = true;
  const probe = home.svc(['provider', 'test', 'other']);
  const embedding = post('/v1/embeddings', { model: 'up/m', input: 'a' });
  const runs = await Promise.all([
    start({ prompt: 'stream', model: 'up/m' }),
    start({ prompt: 'first', model: 'up/m' }),
    start({ prompt: 'second', model: ['up/m', 'other/m'] }),
    start({ prompt: 'tool', model: 'up/m', tool_servers: ['shelf'] }),
  ]);
  const [stream, first, second, tool] = runs.map(({ id }) => id) as [
    string,
    string,
    string,
    string,
  ];
  await waitFor('all work has begun', async () => {
    const { tool_calls = [] } = await show(tool);
    return asked.size === 5 && tool_calls[0]?.report !== undefined;
  });
  life.child.kill('SIGSTOP');
  stopped.open();
  const decision = post(`/v1/approvals/${waiting?.id}`, { decision: 'allow' });
  await waitFor('the long answer was sent', () => isSent);
  life.child.kill('SIGCONT');
  const ended = (id: string) =>
    waitFor('it has ended', async () => {
      const run = await show(id);
      return run.ended_at !== null && run;
    });
  const long = await ended(stream);
  assert.equal([long.state, long.attempts], ['completed', 1]);
  assert.match(long.output, /^begin\.+end$/);
  assert.is((await ended(first)).output, 'late for first');
  const { output, provider, attempts } = await ended(second);
  assert.equal([output, provider, attempts], ['late for second', 'up', 1], 'no other target');
  assert.is((await embedding).status, 200);
  assert.is((await probe).code, 0);
  assert.equal(
    (await ended(tool)).tool_calls?.map(({ result, is_error }) => [result, is_error]),
    [['counted', false]],
  );
  assert.is((await decision).status, 200);
  const decided = await ended(person.id);
  assert.equal(
    decided.tool_calls?.map(({ state, result }) => [state, result]),
    [['finished', 'put']],
  );
});

test.run();
