import { setImmediate as turn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { defaultLimits } from '../../src/limits.ts';
import { HubClient } from '../../src/models/hub/client.ts';
import { Hub } from '../helpers/hub.ts';
import { FILE, MODEL } from '../helpers/pulls.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

test('the body of an answer is whole, however late it is read', async () => {
  const hub = await Hub.start({ [FILE]: MODEL });
  const client = new HubClient({}, defaultLimits);
  try {
    const url = new URL(`${hub.url}/${FILE}`);
    const { signal } = new AbortController();
    const answer = await client.get({ url, hub: null, signal });
    for (let round = 0; round < 20; round += 1) {
      collectGarbage();
      await turn();
    }
    let bytes = 0;
    for await (const chunk of answer.body ?? []) bytes += chunk.length;
    assert.is(bytes, MODEL.length);
  } finally {
    await client.close();
    await hub.stop();
  }
});

test.run();
