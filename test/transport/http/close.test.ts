import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { waitFor } from '../../helpers/wait.ts';
import { ask, BEARER, boot, wire } from './boot.ts';

test('closing sends an answer that is in progress', async () => {
  const http = await boot();
  await ask(`${http.url}/v1/runs`, { method: 'POST', headers: BEARER, body: { prompt: 'a' } });
  const cancel = ask(`${http.url}/v1/runs/run_1/cancel`, { method: 'POST', headers: BEARER });
  await waitFor('the cancel to arrive', () => http.runtime.calls.includes('runs.cancel'));
  const closed = http.close();
  http.runtime.release();
  assert.is((await cancel).status, 200);
  await closed;
});

test('closing waits no longer than its bound for clients that stay', async () => {
  const http = await boot({ limits: { close_grace_ms: 50 } });
  const idle = wire(http.port);
  const kept = wire(http.port, `GET /livez HTTP/1.1\r\nHost: ${http.host}\r\n\r\n`);
  const half = wire(http.port, 'GET /livez HTTP/1.1\r\nHost: ');
  await waitFor('an answer', () => kept.received().includes('200 OK'));
  await http.close();
  await Promise.all([idle.ended, kept.ended, half.ended]);
});

test('closing a listener that never listened is done at once, and closing twice is too', async () => {
  const http = await boot();
  await http.close();
  await http.close();
});

test('a closed listener accepts no connection', async () => {
  const http = await boot();
  await http.close();
  const error = await ask(`${http.url}/livez`).catch((failure) => failure);
  assert.is(error.code, 'ECONNREFUSED');
});

test.run();
