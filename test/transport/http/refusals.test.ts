import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { waitFor } from '../../helpers/wait.ts';
import { ask, type Booted, boot, TOKEN, wire } from './boot.ts';

/** The lines about refusals that a listener has logged. */
const lines = ({ logged }: Booted) => logged.filter(({ fields }) => 'refused' in fields);
const sum = (http: Booted, kind: string) =>
  lines(http).reduce(
    (total, { fields }) => total + ((fields.refused as Record<string, number>)[kind] ?? 0),
    0,
  );

test('refused requests are counted by kind, in one line at once and one at the end of the period, without secrets', async () => {
  const http = await boot();
  for (let n = 0; n < 20; n += 1)
    await ask(`${http.url}/v1/runs`, {
      headers: { authorization: `Bearer ${TOKEN.slice(1)}${n}` },
    });
  for (let n = 0; n < 5; n += 1)
    await ask(`${http.url}/openapi.json`, { headers: { host: 'evil.example' } });
  await ask(`${http.url}/livez`, { headers: { origin: 'http://evil.example' } });
  await wire(http.port, 'NONSENSE\r\n\r\n').ended;
  assert.is((await ask(`${http.url}/nowhere`)).status, 404);
  assert.is(lines(http).length, 1, 'the rest waits for the period to be over');
  await http.close();
  assert.equal(
    lines(http).map(({ level, fields }) => [level, fields.refused]),
    [
      ['warn', { unauthorised: 1 }],
      ['warn', { unauthorised: 19, forbidden_origin: 6, malformed_request: 1 }],
    ],
  );
  const text = JSON.stringify(http.logged);
  assert.not.ok(text.includes(TOKEN.slice(1)) || text.includes('evil'));
});

test('each period with refusals has one line, and a quiet one has none', async () => {
  const http = await boot({ limits: { refusal_log_ms: 100 } });
  await ask(`${http.url}/v1/runs`);
  await ask(`${http.url}/v1/runs`);
  await waitFor('both are in the log', () => sum(http, 'unauthorised') === 2);
  await ask(`${http.url}/v1/runs`);
  await waitFor('all are in the log', () => sum(http, 'unauthorised') === 3);
  await http.close();
  assert.is(sum(http, 'unauthorised'), 3);
});

test.run();
