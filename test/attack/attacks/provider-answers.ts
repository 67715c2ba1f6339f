import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { jsonBombs } from '../../helpers/json-bombs.ts';
import { ask } from '../../transport/http/boot.ts';
import type { Attack, Victim } from '../attack.ts';

const MIB = 1024 * 1024;
const KEY = 'sk-attack-0123456789abcdef';
const JSON_TYPE = { 'content-type': 'application/json' };

/** Each has its list at another place. */
const PLACES: Readonly<Record<string, (items: string) => string>> = {
  'openai-compatible': (items) => `{"data":[${items}]}`,
  openai: (items) => `{"data":[${items}]}`,
  azure: (items) => `{"data":[${items}]}`,
  mistral: (items) => `{"data":[${items}]}`,
  google: (items) => `{"embeddings":[${items}]}`,
  vertex: (items) => `{"predictions":[${items}]}`,
  cohere: (items) => `{"embeddings":{"float":[${items}]}}`,
  bedrock: (items) => `{"embeddings":{"float":[${items}]}}`,
};
const MODELS: Readonly<Record<string, string>> = { bedrock: 'cohere.embed-v4' };

const endless = (response: ServerResponse) => {
  response.writeHead(200, JSON_TYPE).write('{"data":[');
  const more = () => {
    while (!response.destroyed && response.write('{},'.repeat(20_000)));
  };
  response.on('drain', more);
  more();
};

let send: (response: ServerResponse) => void = endless;
const provider = createServer((incoming, response) => {
  response.on('error', () => undefined);
  incoming.resume().on('end', () => send(response));
});
provider.listen(0, '127.0.0.1').unref();
await once(provider, 'listening');

function configOf(adapter: string) {
  const { port } = provider.address() as AddressInfo;
  return {
    adapter,
    base_url: `http://127.0.0.1:${port}/v1`,
    kind: 'cloud',
    key: 'env:ATTACK_KEY',
    ...(adapter === 'bedrock' ? { options: { region: 'us-east-1' } } : {}),
  };
}

async function embed({ url, bearer }: Victim, adapter: string, what: string): Promise<void> {
  const { status, text } = await ask(`${url}/v1/embeddings`, {
    method: 'POST',
    headers: bearer,
    body: { model: `${adapter}/${MODELS[adapter] ?? 'm'}`, input: ['a', 'b'] },
  });
  if (status !== 502 || !/stream_oversized|provider_failed/.test(text))
    throw new Error(`${adapter}, ${what}: ${status} ${text.slice(0, 200)}`);
}

/** The cost of an answer is in its values, and is bounded before a schema sees it. */
export const attack: Attack = {
  summary: 'providers answer with JSON that costs far more than its bytes',
  // A provider that failed would not be asked again.
  env: () => ({ ATTACK_KEY: KEY, SVC_LIMIT_PROBE_FAILURES: '100' }),
  config: () => ({
    providers: Object.fromEntries(
      Object.keys(PLACES).map((adapter) => [adapter, configOf(adapter)]),
    ),
  }),
  memory_mib: { short: 300, long: 300 },
  livez_ms: 1000,
  async run(victim, scale) {
    const adapters = Object.keys(PLACES);
    for (const [at, adapter] of adapters.entries()) {
      const bombs = Object.entries(jsonBombs(PLACES[adapter] ?? String, 15));
      // The short form sends each bomb to one adapter.
      const chosen = bombs.filter((_, place) => scale === 'long' || place % adapters.length === at);
      for (const [name, { body }] of chosen) {
        send = (response) => void response.writeHead(200, JSON_TYPE).end(body);
        await embed(victim, adapter, name);
      }
      send = endless;
      await embed(victim, adapter, 'without an end');
      const packed = gzipSync(Buffer.alloc(64 * MIB, '['));
      send = (response) =>
        void response.writeHead(200, { ...JSON_TYPE, 'content-encoding': 'gzip' }).end(packed);
      await embed(victim, adapter, 'packed');
    }
  },
  clean: () => provider.closeAllConnections(),
};
