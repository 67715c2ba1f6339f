import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { offer } from '../../src/cli/upkeep/doctor/discover.ts';
import { knownProviders } from '../../src/config/providers/known-providers.ts';
import { discoverServers, SERVERS } from '../../src/providers/discover.ts';

/** Servers that answer only the given paths; the others get `otherwise`. */
const running = new Set<Server>();
const asked: string[] = [];

async function serve(
  answers: Record<string, unknown>,
  otherwise: { status: number; body: unknown } = { status: 404, body: 'not found' },
): Promise<string> {
  const server = createServer(({ url = '', headers }, response) => {
    asked.push(`${url} ${headers.authorization ?? 'no key'}`);
    const known = Object.hasOwn(answers, url);
    const body = known ? answers[url] : otherwise.body;
    response
      .writeHead(known ? 200 : otherwise.status)
      .end(typeof body === 'string' ? body : JSON.stringify(body));
  });
  running.add(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test.after.each(async () => {
  asked.length = 0;
  for (const server of running) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
  running.clear();
});

const list = (...ids: string[]) => ({ object: 'list', data: ids.map((id) => ({ id })) });
const at = (origin: string, ...ids: string[]) =>
  ids.map((id) => ({ id, name: id, base_url: `${origin}/v1` }));

test('each server is known by an answer that no other gives, and asked without a key', async () => {
  const ollama = await serve({ '/': 'Ollama is running', '/v1/models': list('a', 'b') });
  // LM Studio answers unknown paths with 200.
  const lmstudio = await serve(
    { '/lmstudio-greeting': { lmstudio: true }, '/v1/models': list('c') },
    { status: 200, body: { error: 'Unexpected endpoint' } },
  );
  const vllm = await serve({ '/v1/models': { data: [{ id: 'd', owned_by: 'vllm' }] } });
  const found = await discoverServers([
    ...at(ollama, 'ollama'),
    ...at(lmstudio, 'lmstudio'),
    ...at(vllm, 'vllm'),
  ]);
  assert.equal(
    found.map(({ like, models }) => [like, models]),
    [
      ['ollama', ['a', 'b']],
      ['lmstudio', ['c']],
      ['vllm', ['d']],
    ],
  );
  assert.ok(asked.every((line) => line.endsWith('no key')));
});

test('two servers with the same usual port get their own names', async () => {
  const llama = await serve({
    '/props': { default_generation_settings: {} },
    '/v1/models': list('m'),
  });
  const localai = await serve({
    '/.well-known/localai.json': { endpoints: {} },
    '/v1/models': list('n'),
  });
  const names = async (origin: string) =>
    (await discoverServers(at(origin, 'llama-server', 'localai'))).map(({ like }) => like);
  assert.equal(await names(llama), ['llama-server']);
  assert.equal(await names(localai), ['localai']);
});

test('a server with two usual ports is looked for at both, and the offer names its address', async () => {
  const usual = SERVERS.filter(({ id }) => id === 'llama-server').map(({ base_url }) => base_url);
  assert.equal(usual, ['http://127.0.0.1:8080/v1', 'http://127.0.0.1:9931/v1']);
  assert.is(new Set(SERVERS.map(({ id }) => id)).size, 7);
  const props = { '/props': { default_generation_settings: {} }, '/v1/models': list('m') };
  const [gone, here] = [await serve({ '/': 'a page' }), await serve(props)];
  const found = await discoverServers([...at(gone, 'llama-server'), ...at(here, 'llama-server')]);
  assert.equal(
    found.map(({ like, base_url }) => [like, base_url]),
    [['llama-server', `${here}/v1`]],
  );
  const [one] = found;
  assert.ok(one);
  assert.is(offer(one), `To use llama-server: svc provider add llama-server --base-url ${here}/v1`);
  const { base_url } = knownProviders['llama-server'];
  assert.is(offer({ ...one, base_url }), 'To use llama-server: svc provider add llama-server');
  assert.is(
    offer({ ...one, like: null, name: 'x' }),
    `To use x: svc provider add <name> --base-url ${here}/v1`,
  );
});

test('another server with the API of OpenAI has no name, and one without it is left out', async () => {
  const other = await serve({ '/v1/models': list('x') });
  const [found] = await discoverServers(at(other, 'llama-server', 'localai'));
  assert.is(found?.like, null);
  assert.equal(found?.models, ['x']);
  assert.is(found?.base_url, `${other}/v1`);
  const site = await serve({ '/': '<html>Hello</html>' });
  assert.equal(await discoverServers(at(site, 'ollama')), []);
});

test('a server that wants a key is found without its models', async () => {
  const ollama = await serve({ '/': 'Ollama is running' }, { status: 401, body: {} });
  const [found] = await discoverServers(at(ollama, 'ollama'));
  assert.is(found?.like, 'ollama');
  assert.is(found?.models, null);
});

test('an answer without an end, a closed port and svc itself are left out', async () => {
  const endless = createServer((_request, response) => {
    const send = () => {
      while (!response.destroyed && response.write('x'.repeat(65_536)));
    };
    response.on('drain', send);
    send();
  });
  running.add(endless);
  await new Promise<void>((resolve) => endless.listen(0, '127.0.0.1', resolve));
  const origin = `http://127.0.0.1:${(endless.address() as AddressInfo).port}`;
  const gone = await serve({});
  const closed = [...running].at(-1);
  await new Promise((resolve) => closed?.close(resolve));
  running.delete(closed as Server);
  const own = await serve({ '/': 'Ollama is running', '/v1/models': list('a') });
  const servers = [...at(origin, 'ollama'), ...at(gone, 'ollama'), ...at(own, 'ollama')];
  assert.equal(await discoverServers(servers, [own]), []);
  assert.not.ok(asked.some((line) => line.startsWith('/v1/models')));
});

test.run();
