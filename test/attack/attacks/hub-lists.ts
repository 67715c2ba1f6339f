import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Attack } from '../attack.ts';

const MIB = 1024 * 1024;

/** What the repositories of the hub list. */
const LISTS: Record<string, () => string> = {
  brackets: () => '['.repeat(16 * MIB),
  nested: () => '['.repeat(MIB) + ']'.repeat(MIB),
  objects: () => `${'{"a":'.repeat(300_000)}1${'}'.repeat(300_000)}`,
  entries: () =>
    `[${Array.from({ length: 390_000 }, (_, index) => `{"type":"file","path":"${index}","size":1}`).join(',')}]`,
  small: () => `[${'{},'.repeat(690_000)}{}]`,
};

const hub = createServer((request, response) => {
  const list = LISTS[/models\/user\/(\w+)\/tree/.exec(request.url ?? '')?.[1] ?? ''];
  response.setHeader('content-type', 'application/json');
  response.on('error', () => undefined);
  response.end(list?.() ?? '[]');
});
hub.listen(0, '127.0.0.1').unref();
await once(hub, 'listening');

/** A list of files has a bound, and is read only as deep as lists are. */
export const attack: Attack = {
  summary: 'a model hub answers with lists that are long or deep',
  env: () => ({ HF_ENDPOINT: `http://127.0.0.1:${(hub.address() as AddressInfo).port}` }),
  memory_mib: { short: 250, long: 250 },
  livez_ms: 500,
  async run({ home }, scale) {
    for (let round = 0; round < (scale === 'short' ? 1 : 3); round += 1) {
      for (const name of Object.keys(LISTS)) {
        const { code, stderr } = await home.svc(['model', 'pull', `hf:user/${name}`]);
        if (code === 0 || /in the log|unexpected/i.test(stderr))
          throw new Error(`${name} ended with exit ${code}: ${stderr.slice(0, 200)}`);
      }
    }
  },
  clean: () => hub.closeAllConnections(),
};
