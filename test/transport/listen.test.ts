import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { listen, listenOnOtherLoopback } from '../../src/transport/listen.ts';
import { waitFor } from '../helpers/wait.ts';
import { ask, boot } from './http/boot.ts';

/** Both loopback addresses at one port. */
const test = suite('the second loopback address');

const probe = createServer();
const hasIpv6 = await listen(probe, '::1', 0).then(
  () => true,
  () => false,
);
probe.close();
if (!hasIpv6) process.stdout.write('skipped: no IPv6 loopback\n');
const onIpv6 = hasIpv6 ? test : test.skip;

onIpv6('what listens on one loopback address answers at both, and closes both', async () => {
  for (const bind of ['127.0.0.1', '::1']) {
    const http = await boot({ bind });
    assert.is(http.warning(), null);
    for (const host of ['127.0.0.1', '[::1]'])
      assert.is(
        (await ask(`http://${host}:${http.port}/livez`)).status,
        200,
        `${host}, bound to ${bind}`,
      );
    await http.close();
    for (const host of ['127.0.0.1', '::1']) {
      const [error] = await once(connect(http.port, host), 'error');
      assert.is(error.code, 'ECONNREFUSED', host);
    }
  }
});

onIpv6(
  'a program that holds the other address is told of, and the daemon listens all the same',
  async () => {
    const other = createServer();
    const address = await listen(other, '::1', 0);
    const port = Number(address.split(':').at(-1));
    const http = await boot({ port });
    assert.match(http.warning() ?? '', `[::1]:${port}`);
    assert.is((await ask(`http://127.0.0.1:${port}/livez`)).status, 200);
    await http.close();
    other.close();
  },
);

onIpv6('when that program leaves the address, the daemon takes it and warns no more', async () => {
  const other = createServer();
  const port = Number((await listen(other, '::1', 0)).split(':').at(-1));
  const http = await boot({ port, limits: { port_again_ms: 10 } });
  assert.match(http.warning() ?? '', `[::1]:${port}`);
  other.close();
  await waitFor('the warning to end', () => http.warning() === null);
  assert.is((await ask(`http://[::1]:${port}/livez`)).status, 200);
  await http.close();
  const [error] = await once(connect(port, '::1'), 'error');
  assert.is(error.code, 'ECONNREFUSED');
});

test('an address that is not loopback has no second address', async () => {
  for (const address of ['0.0.0.0:1', '[::]:1', '192.0.2.1:80'])
    assert.is(
      (await listenOnOtherLoopback(address, () => {}, { connections: 1, again_ms: 10 })).taken,
      null,
    );
});

test.run();
