import * as assert from 'uvu/assert';
import type { Walked } from './edges.ts';
import { House, waitLong } from './life.ts';

/** Lives of providers: an upstream that answers, refuses, fails or says nothing, asked by probes and by runs. */

const CLOUD = { kind: 'cloud' };
/** No probe comes by itself, none is given up while it is answered, and no attempt is made twice. */
const QUIET = { LIMIT_PROBE_EVERY_MS: 3_600_000, LIMIT_PROBE_MS: 60_000, LIMIT_RUN_ATTEMPTS: 1 };

/** The state of a cloud provider comes from its runs, because no probe is sent. */
async function toldByRuns(): Promise<Walked> {
  const house = await House.build(QUIET, {
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
  await house.start('ready');
  await is(house, 'unused', 'unknown');
  await is(house, 'keyless', 'unauthorised');
  await asks(
    house,
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
    house,
    'bad',
    ['500', 'degraded'],
    ['500', 'degraded'],
    ['500', 'unavailable'],
    ['finish', 'available'],
    ['500', 'degraded'],
  );
  await asks(house, 'refused', ['401', 'unauthorised']);
  await asks(house, 'lost', ['500', 'degraded'], ['500', 'degraded'], ['500', 'unavailable']);
  for (const id of ['unused', 'good', 'bad', 'lost', 'up'])
    assert.is((await house.home.svc(['provider', 'remove', id])).code, 0, id);
  await house.kill();
  return house.leave();
}

/** With a limit of one, the first failure is one too many. */
async function oneTooMany(): Promise<Walked> {
  const house = await House.build(
    { ...QUIET, LIMIT_PROBE_FAILURES: 1 },
    { providers: { up: {}, new: CLOUD } },
  );
  await house.start('ready');
  await is(house, 'up', 'available');
  await asks(house, 'up', ['500', 'unavailable']);
  await asks(house, 'new', ['500', 'unavailable']);
  await house.kill();
  return house.leave();
}

/** What probes tell, asked for in each state. */
async function toldByProbes(): Promise<Walked> {
  const house = await House.build(QUIET);
  await house.start('ready');
  await is(house, 'up', 'available');
  await probes(house, 500, 'degraded');
  await probes(house, 500, 'degraded');
  await probes(house, 500, 'unavailable');
  await probes(house, 401, 'unauthorised');
  await probes(house, 'list', 'available');
  // An answer to a run outweighs a probe that still waits.
  house.upstream.listing = 'hold';
  const probing = house.home.svc(['provider', 'test', 'up']);
  await waitLong('the upstream is asked', () => house.upstream.isAsked);
  await is(house, 'up', 'probing');
  await asks(house, 'up', ['finish', 'available']);
  house.upstream.answerLists('list');
  await probing;
  house.upstream.listing = 'hold';
  const again = house.home.svc(['provider', 'test', 'up']);
  await waitLong('the upstream is asked again', () => house.upstream.isAsked);
  assert.is((await house.home.svc(['provider', 'remove', 'up'])).code, 0);
  house.upstream.answerLists('list');
  await again;
  // One that has never worked is unavailable at once.
  house.upstream.listing = 500;
  await house.home.svc([
    'provider',
    'add',
    'new',
    '--base-url',
    house.upstream.base_url,
    '--kind',
    'local',
  ]);
  await is(house, 'new', 'unavailable');
  await house.kill();
  return house.leave();
}

async function asks(
  house: House,
  id: string,
  ...turns: [prompt: string, state: string][]
): Promise<void> {
  for (const [prompt, state] of turns) {
    const run = await house.run(prompt, { provider: id, model: 'm' });
    await house.untilRun(run, prompt === 'finish' ? 'completed' : 'failed');
    await is(house, id, state);
  }
}

async function probes(house: House, listing: 'list' | 401 | 500, state: string): Promise<void> {
  house.upstream.listing = listing;
  await house.home.svc(['provider', 'test', 'up']);
  await is(house, 'up', state);
}

function is(house: House, id: string, state: string): Promise<unknown> {
  return waitLong(`${id} is ${state}`, async () =>
    (await house.report()).providers.some(
      (provider) => provider.id === id && provider.state === state,
    ),
  );
}

export const providerLives = [toldByRuns, oneTooMany, toldByProbes];
