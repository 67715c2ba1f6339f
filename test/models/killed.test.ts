import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { errors } from '../../src/errors.ts';
import { runtimeOf } from '../helpers/daemon.ts';
import { Hub, type HubRequest } from '../helpers/hub.ts';
import { makeModel } from '../helpers/pulls.ts';
import { makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';

/** A large download with several connections, and a daemon that is killed while it runs. */

const MIB = 1024 * 1024;
const FILE = 'large-Q4_K_M.gguf';
const KILLS = 3;
/** Each connection sends this much in one life of the daemon. */
const SHARE = 7 * MIB;
/** What the sidecar does not list yet. */
const LATE_MAX = 5 * MIB;

test('200 MB, killed three times: what is on disk is not fetched again, and the file is whole', async () => {
  const model = Buffer.concat([makeModel(64), randomBytes(200 * MIB)]);
  const hub = await Hub.start({ [FILE]: model });
  const home = makeHome({
    HF_ENDPOINT: hub.url,
    SVC_LIMIT_PULL_SPARE_BYTES: '0',
    SVC_LIMIT_PULL_RANGE_BYTES: String(16 * MIB),
    SVC_LIMIT_PULL_IDLE_MS: '600000',
  });
  const pull = ['model', 'pull', 'hf:user/large'];
  const sidecar = join(home.paths.models, `${FILE}.partial.json`);
  let parts: number[][] = [];
  try {
    hub.usual = { hangAfter: SHARE };
    for (let kill = 1; kill <= KILLS; kill += 1) {
      assert.is((await home.svc(['start'])).code, 0);
      const asked = hub.downloads.length;
      const before = bytesIn(parts);
      const command = home.spawn(pull);
      await waitFor(
        'four connections hang',
        () => hub.downloads.slice(asked).filter(({ sent }) => sent === SHARE).length >= 4,
        { within_ms: 120_000 },
      );
      const sent = hub.downloads.slice(asked).reduce((sum, each) => sum + each.sent, 0);
      await waitFor(
        'the sidecar lists them',
        () => bytesIn(listed(sidecar)) >= before + sent - LATE_MAX,
      );
      process.kill((await runtimeOf(home)).pid, 'SIGKILL');
      assert.is((await command.ended).code, errors.connection_lost.exit);
      await waitFor('all connections are closed', () => hub.open.size === 0);
      expectMissing(hub.downloads.slice(asked), parts);
      parts = listed(sidecar);
    }
    const asked = hub.downloads.length;
    hub.usual = {};
    assert.is((await home.svc(['start'])).code, 0);
    const { code, stderr } = await home.svc(pull);
    assert.is(code, 0, stderr);
    assert.match(stderr, /Resuming at/);
    const target = join(home.paths.models, FILE);
    assert.is(statSync(target).size, model.length);
    assert.ok(readFileSync(target).equals(model));
    expectMissing(hub.downloads.slice(asked), parts);
  } finally {
    await home.close();
    await hub.stop();
  }
});

/** The parts that the sidecar lists. */
function listed(sidecar: string): number[][] {
  if (!existsSync(sidecar)) return [];
  const { parts = [] } = JSON.parse(readFileSync(sidecar, 'utf8')) as { parts?: number[][] };
  return parts;
}

function bytesIn(parts: readonly number[][]): number {
  return parts.reduce((sum, [from = 0, to = 0]) => sum + to - from, 0);
}

/**
 * These requests ask for nothing that is in the parts. The first one is for all from the first
 * missing byte on, and ends early: how much of it is on its way then is up to the system.
 */
function expectMissing(requests: readonly HubRequest[], parts: readonly number[][]): void {
  const [first, ...others] = requests.map(({ headers }) =>
    [...(headers.range ?? 'bytes=0-').matchAll(/\d+/g)].map(Number),
  );
  assert.equal(first, [parts[0]?.[1] ?? 0]);
  assert.ok(others.length >= 3);
  for (const [from = 0, last = 0] of others)
    for (const [start = 0, end = 0] of parts)
      assert.ok(last < start || from >= end, `${from}-${last} is in ${start}-${end}`);
}

test.run();
