import * as assert from 'uvu/assert';
import type { Walked } from './edges.ts';
import { Harness } from './harness.ts';

/** A conversation of a program, over a crash after each change. */
async function made(): Promise<Walked> {
  const harness = await Harness.build({});
  await harness.start('ready');
  const again = async () => {
    await harness.kill();
    await harness.start('ready');
  };
  const items = [{ role: 'user', content: 'a' }];
  const { body } = await harness.post('/v1/conversations', { items });
  const path = `/v1/conversations/${body.id}`;
  await again();
  assert.is((await harness.post(`${path}/items`, { items })).status, 200);
  await again();
  const input = { conversation: body.id, input: 'finish' };
  assert.is((await harness.post('/v1/responses', input)).status, 200);
  await again();
  assert.is((await harness.post(path, { metadata: { team: 'b' } })).status, 200);
  await again();
  const { data } = (await harness.get(`${path}/items?order=asc`)) as { data: { id: string }[] };
  assert.is(data.length, 4, 'two items, the input of a response and its answer');
  const removed = await harness.home.svc(['api', 'DELETE', `${path}/items/${data[0]?.id}`]);
  assert.is(removed.code, 0, removed.stderr);
  await again();
  const left = (await harness.get(`${path}/items`)) as { data: object[] };
  assert.is(left.data.length, 3);
  assert.is((await harness.home.svc(['api', 'DELETE', path])).code, 0);
  await again();
  assert.is((await harness.post(path, { metadata: {} })).status, 404);
  await harness.kill();
  return harness.leave();
}

export const conversationScenarios = [made];
