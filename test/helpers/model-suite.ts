import { rmSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { Hub } from './hub.ts';
import { type Home, makeHome } from './svc.ts';

export interface ModelBench extends Home {
  hub: Hub;
}

/**
 * Tests of one home whose daemon runs, and whose hub has these files. Each begins with an empty
 * folder of models, and with a hub that got no request.
 */
export function modelSuite(
  name: string,
  files: Record<string, Buffer>,
  env: NodeJS.ProcessEnv = {},
) {
  const test = suite<{ bench: ModelBench }>(name);
  test.before(async (context) => {
    const hub = await Hub.start(files);
    const home = makeHome({ HF_ENDPOINT: hub.url, SVC_LIMIT_PULL_SPARE_BYTES: '0', ...env });
    context.bench = { ...home, hub };
  });
  test.before.each(async ({ bench: { hub, paths, svc } }) => {
    hub.reset();
    rmSync(paths.models, { recursive: true, force: true });
    // The test before may have ended it.
    const { code, stderr } = await svc(['start']);
    assert.is(code, 0, stderr);
  });
  test.after(async ({ bench }) => {
    await bench.close();
    await bench.hub.stop();
  });
  return test;
}
