import * as assert from 'uvu/assert';
import type { Walked } from './edges.ts';
import { Harness, waitLong } from './harness.ts';

/**
 * Scenarios of providers: an upstream answers, refuses, fails or stays silent, for probes and for
 * runs.
 */

const CLOUD = { kind: 'cloud' };
/**
 * No probe comes by itself, none is given up while it is answered, and no attempt is made twice.
 */
const QUIET = { LIMIT_PROBE_EVERY_MS: 3_600_000, LIMIT_PROBE_MS: 60_000, LIMIT_RUN_ATTEMPTS: 1 };

/** The state of a cloud provider comes from its runs, because no probe is sent. */
async function toldByRuns(): Promise<Walked> {
  const harness = await Harness.build(QUIET, {
    providers: {
      up: {},
      good: CLOUD,
      bad: CLOUD,
      refused: CLOUD,
      keyless: { ...CLOUD, key_env: 'NO_SUCH_KEY' },
      unused: CLOUD,
      lost: CLOUD,
    },
  });
  await harness.start('ready');
  await is(harness, 'unused', 'unknown');
  await is(harness, 'keyless', 'unauthorised');
  await asks(
    harness,
    'good',
    ['finish', 'available'],
    ['500', 'degraded'],
    ['finish', 'available'],
    ['401', 'unauthorised'],
    ['finish', 'available'],
    ['500', 'degraded'],
    ['401', 'unauthorised'],
  );
  await asks(
    harness,
    'bad',
    ['500', 'degraded'],
    ['500', 'degraded'],
    ['500', 'unavailable'],
    ['finish', 'available'],
    ['500', 'degraded'],
  );
  await asks(harness, 'refused', ['401', 'unauthorised']);
  await asks(harness, 'lost', ['500', 'degraded'], ['500', 'degraded'], ['500', 'unavailable']);
  for (const id of ['unused', 'good', 'bad', 'lost', 'up'])
    assert.is((await harness.home.svc(['provider', 'remove', id])).code, 0, id);
  await harness.kill();
  return harness.leave();
}

/** With a limit of one, the first failure is one too many. */
async function oneTooMany(): Promise<Walked> {
  const harness = await Harness.build(
    { ...QUIET, LIMIT_PROBE_FAILURES: 1 },
    { providers: { up: {}, new: CLOUD } },
  );
  await harness.start('ready');
  await is(harness, 'up', 'available');
  await asks(harness, 'up', ['500', 'unavailable']);
  await asks(harness, 'new', ['500', 'unavailable']);
  await harness.kill();
  return harness.leave();
}

/** What probes tell, asked for in each state. */
async function toldByProbes(): Promise<Walked> {
  const harness = await Harness.build(QUIET);
  await harness.start('ready');
  await is(harness, 'up', 'available');
  await probes(harness, 500, 'degraded');
  await probes(harness, 500, 'degraded');
  await probes(harness, 500, 'unavailable');
  await probes(harness, 401, 'unauthorised');
  await probes(harness, 'list', 'available');
  // An answer to a run outweighs a probe that still waits.
  harness.upstream.listing = 'hold';
  const probing = harness.home.svc(['provider', 'test', 'up']);
  await waitLong('the upstream is asked', () => harness.upstream.isAsked);
  await is(harness, 'up', 'probing');
  await asks(harness, 'up', ['finish', 'available']);
  harness.upstream.answerLists('list');
  await probing;
  harness.upstream.listing = 'hold';
  const again = harness.home.svc(['provider', 'test', 'up']);
  await waitLong('the upstream is asked again', () => harness.upstream.isAsked);
  assert.is((await harness.home.svc(['provider', 'remove', 'up'])).code, 0);
  harness.upstream.answerLists('list');
  await again;
  // One that has never worked is unavailable at once.
  harness.upstream.listing = 500;
  await harness.home.svc([
    'provider',
    'add',
    'new',
    '--base-url',
    harness.upstream.base_url,
    '--kind',
    'local',
  ]);
  await is(harness, 'new', 'unavailable');
  await harness.kill();
  return harness.leave();
}

async function asks(
  harness: Harness,
  id: string,
  ...turns: [prompt: string, state: string][]
): Promise<void> {
  for (const [prompt, state] of turns) {
    const run = await harness.run(prompt, { provider: id, model: 'm' });
    await harness.untilRun(run, prompt === 'finish' ? 'completed' : 'failed');
    await is(harness, id, state);
  }
}

async function probes(harness: Harness, listing: 'list' | 401 | 500, state: string): Promise<void> {
  harness.upstream.listing = listing;
  await harness.home.svc(['provider', 'test', 'up']);
  await is(harness, 'up', state);
}

function is(harness: Harness, id: string, state: string): Promise<unknown> {
  return waitLong(`${id} is ${state}`, async () =>
    (await harness.report()).providers.some(
      (provider) => provider.id === id && provider.state === state,
    ),
  );
}

export const providerScenarios = [toldByRuns, oneTooMany, toldByProbes];
