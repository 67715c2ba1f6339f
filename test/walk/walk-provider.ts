import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import type { Walked } from './edges.ts';
import { type Answered, Harness, waitLong } from './harness.ts';

/**
 * Scenarios of providers: an upstream answers, refuses, fails or stays silent, for probes and for
 * runs.
 */

const CLOUD = { kind: 'cloud', key: 'file:$HOME/walk.key' };
/**
 * No probe comes by itself, none is given up while it is answered, and no attempt is made twice.
 * An open circuit stays open.
 */
const QUIET = {
  LIMIT_PROBE_EVERY_MS: 3_600_000,
  LIMIT_PROBE_MS: 60_000,
  LIMIT_RUN_ATTEMPTS: 1,
  LIMIT_CIRCUIT_WAIT_MS: 600_000,
  LIMIT_CIRCUIT_WAIT_MAX_MS: 600_000,
  LIMIT_REFUSED_WAIT_MS: 600_000,
  LIMIT_CIRCUIT_WAIT_LONG_MS: 600_000,
};
const SHORT = { LIMIT_CIRCUIT_WAIT_MS: 100, LIMIT_CIRCUIT_WAIT_MAX_MS: 100 };
const SHORT_REFUSED = { LIMIT_REFUSED_WAIT_MS: 100, LIMIT_CIRCUIT_WAIT_LONG_MS: 100 };

/** The state of a cloud provider comes from its runs, because no probe is sent. */
async function toldByRuns(): Promise<Walked> {
  const harness = await Harness.build(QUIET, {
    providers: {
      up: {},
      good: CLOUD,
      bad: CLOUD,
      refused: CLOUD,
      keyless: { kind: 'cloud', key: 'env:NO_SUCH_KEY' },
      unused: CLOUD,
      lost: CLOUD,
      busy: CLOUD,
      crowded: CLOUD,
      weak: CLOUD,
    },
  });
  await starts(harness);
  await is(harness, 'unused', 'unknown');
  await is(harness, 'keyless', 'unauthorised');
  await asks(
    harness,
    'good',
    ['finish', 'available'],
    ['500', 'degraded'],
    ['finish', 'available'],
  );
  await answersLate(harness, 'good', ['keyless', 'unauthorised']);
  await asks(harness, 'good', ['500', 'degraded'], ['keyless', 'unauthorised']);
  await answersLate(
    harness,
    'bad',
    ['drop', 'degraded'],
    ['drop', 'degraded'],
    ['drop', 'unavailable'],
  );
  await asks(harness, 'bad', ['500', 'degraded'], ['quota', 'rate_limited']);
  await asks(harness, 'refused', ['keyless', 'unauthorised']);
  await asks(harness, 'lost', ['drop', 'degraded'], ['drop', 'degraded'], ['drop', 'unavailable']);
  await asks(harness, 'busy', ['quota', 'rate_limited']);
  await asks(harness, 'crowded', ['finish', 'available'], ['quota', 'rate_limited']);
  await harness.home.svc(['provider', 'test', 'crowded']);
  await is(harness, 'crowded', 'available');
  await asks(harness, 'weak', ['500', 'degraded']);
  for (const id of ['unused', 'good', 'bad', 'lost', 'up', 'weak'])
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
  await starts(harness);
  await is(harness, 'up', 'available');
  await asks(harness, 'up', ['drop', 'unavailable']);
  await asks(harness, 'new', ['drop', 'unavailable']);
  await harness.kill();
  return harness.leave();
}

/** Each failure opens the circuit, and a short wait later one request tries the provider. */
async function halfOpen(): Promise<Walked> {
  const harness = await Harness.build(
    { ...QUIET, LIMIT_PROBE_FAILURES: 1, ...SHORT, ...SHORT_REFUSED },
    { providers: { up: {}, far: CLOUD, gone: CLOUD, left: CLOUD } },
  );
  await starts(harness);
  await asks(
    harness,
    'far',
    ['drop', 'half_open'],
    ['finish', 'available'],
    ['drop', 'half_open'],
    ['drop', 'half_open'],
    ['quota', 'half_open'],
    ['keyless', 'half_open'],
    ['500', 'degraded', 'sick'],
    ['finish', 'available'],
  );
  await answersLate(harness, 'far', ['drop', 'half_open']);
  await asks(harness, 'far', ['drop', 'half_open']);
  await harness.home.svc(['provider', 'test', 'far']);
  await is(harness, 'far', 'available');
  await asks(harness, 'far', ['drop', 'half_open']);
  const cancelled = await holds(harness, 'far');
  await harness.home.svc(['runs', 'cancel', cancelled]);
  await harness.untilRun(cancelled, 'cancelled');
  const tried = await holds(harness, 'far');
  await harness.home.svc(['provider', 'test', 'far']);
  await is(harness, 'far', 'available');
  await harness.upstream.finish();
  await harness.untilRun(tried, 'completed');
  await asks(harness, 'gone', ['drop', 'half_open']);
  await getsKey(harness, 'gone');
  await asks(harness, 'gone', ['drop', 'half_open']);
  await asks(harness, 'left', ['drop', 'half_open']);
  await holds(harness, 'left');
  await getsKey(harness, 'left');
  await asks(harness, 'left', ['drop', 'half_open']);
  await holds(harness, 'left');
  for (const id of ['gone', 'left'])
    assert.is((await harness.home.svc(['provider', 'remove', id])).code, 0, id);
  await harness.kill();
  return harness.leave();
}

/** What probes tell, asked for in each state. */
async function toldByProbes(): Promise<Walked> {
  const harness = await Harness.build(QUIET);
  await starts(harness);
  await is(harness, 'up', 'available');
  await probes(harness, 500, 'degraded');
  await probes(harness, 500, 'degraded');
  await probes(harness, 500, 'unavailable');
  await probes(harness, 401, 'unauthorised');
  await probes(harness, 429, 'rate_limited');
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

/** One request tries a model whose time has come, whatever its provider does meanwhile. */
async function oneModel(): Promise<Walked> {
  const harness = await Harness.build(
    { ...QUIET, ...SHORT, LIMIT_PROBE_FAILURES: 1 },
    { providers: { up: {}, far: CLOUD, near: {}, new: CLOUD } },
  );
  await starts(harness);
  // The provider is available, and the model is tried and answers.
  await asks(harness, 'far', ['429', 'degraded'], ['finish', 'available', 'n']);
  await isReady(harness, 'far');
  await asks(harness, 'far', ['finish', 'available']);
  const meanwhile = async (id: string, ...turns: Turn[]) => {
    await isReady(harness, id);
    const trial = await holds(harness, id);
    await asks(harness, id, ...turns);
    return trial;
  };
  for (const turns of [
    [],
    [['finish', 'available', 'n']],
    [['quota', 'rate_limited', 'n']],
    [['keyless', 'unauthorised', 'n']],
    [['drop', 'half_open', 'n']],
  ] as Turn[][]) {
    await asks(harness, 'far', ['429', 'degraded']);
    await cancels(harness, await meanwhile('far', ...turns));
    await harness.home.svc(['provider', 'test', 'far']);
    await is(harness, 'far', 'available');
  }
  await asks(harness, 'far', ['429', 'degraded']);
  const trial = await meanwhile('far', ['drop', 'half_open', 'n']);
  const other = await holds(harness, 'far', 'n');
  await cancels(harness, trial);
  await cancels(harness, other);
  await harness.home.svc(['provider', 'test', 'far']);
  await asks(harness, 'near', ['429', 'degraded']);
  await cancels(harness, await meanwhile('near', ['drop', 'unavailable', 'n']));
  // A probe takes its time.
  await asks(harness, 'far', ['429', 'degraded']);
  await isReady(harness, 'far');
  harness.upstream.listing = 'hold';
  const probing = harness.home.svc(['provider', 'test', 'far']);
  await waitLong('the upstream is asked', () => harness.upstream.isAsked);
  await cancels(harness, await holds(harness, 'far'));
  harness.upstream.answerLists('list');
  await probing;
  await harness.kill();
  return harness.leave();
}

/** A new key may be accepted, whatever the state was. */
async function newKeys(): Promise<Walked> {
  const harness = await Harness.build(QUIET, { providers: { far: CLOUD } });
  await starts(harness);
  await getsKey(harness, 'far');
  for (const turns of [
    [['finish', 'available']],
    [['500', 'degraded']],
    [['quota', 'rate_limited']],
    [
      ['401', 'degraded'],
      ['401', 'unauthorised', 'n'],
    ],
    [
      ['drop', 'degraded'],
      ['drop', 'degraded'],
      ['drop', 'unavailable'],
    ],
  ] as Turn[][]) {
    await asks(harness, 'far', ...turns);
    await getsKey(harness, 'far');
  }
  harness.upstream.listing = 'hold';
  const probing = harness.home.svc(['provider', 'test', 'far']);
  await waitLong('the upstream is asked', () => harness.upstream.isAsked);
  await is(harness, 'far', 'probing');
  await getsKey(harness, 'far');
  harness.upstream.answerLists('list');
  await probing;
  await harness.kill();
  return harness.leave();
}

/**
 * Texts go to a cloud provider in each state that lets requests in. Their tokens are counted in
 * whatever state it is by then.
 */
async function embeds(): Promise<Walked> {
  const providers = { far: CLOUD, fresh: CLOUD };
  const harness = await Harness.build(QUIET, { providers: { up: {}, ...providers } });
  await starts(harness);
  const atOnce = async (id: string) => {
    const { status } = await vectors(harness, id, 'text');
    assert.is(status, 200);
    await is(harness, id, 'available');
  };
  await atOnce('fresh');
  await atOnce('fresh');
  await asks(harness, 'fresh', ['500', 'degraded']);
  await atOnce('fresh');
  for (const turns of [
    [['quota', 'rate_limited']],
    [['keyless', 'unauthorised']],
    [
      ['drop', 'degraded'],
      ['drop', 'degraded'],
      ['drop', 'unavailable'],
    ],
  ] as Turn[][]) {
    const { answer, end } = await held(harness, 'far');
    await asks(harness, 'far', ...turns);
    end();
    assert.is((await answer).status, 200);
    await harness.home.svc(['provider', 'test', 'far']);
    await is(harness, 'far', 'available');
  }
  harness.upstream.listing = 'hold';
  const probing = harness.home.svc(['provider', 'test', 'far']);
  await waitLong('the upstream is asked', () => harness.upstream.isAsked);
  await atOnce('far');
  harness.upstream.answerLists('list');
  await probing;
  await harness.kill();

  // Each failure opens the circuit, and texts are what tries the provider.
  await harness.start('ready', { LIMIT_PROBE_FAILURES: 1, ...SHORT });
  const { answer, end } = await held(harness, 'far');
  await asks(harness, 'far', ['drop', 'half_open']);
  end();
  assert.is((await answer).status, 200);
  await is(harness, 'far', 'available');
  await asks(harness, 'far', ['drop', 'half_open']);
  await atOnce('far');
  await harness.kill();
  return harness.leave();
}

function vectors(harness: Harness, id: string, input: string): Promise<Answered> {
  return harness.post('/v1/embeddings', { model: `${id}/m`, input });
}

/** A request for vectors that the upstream keeps open. */
async function held(
  harness: Harness,
  id: string,
): Promise<{ answer: Promise<Answered>; end(): void }> {
  const answer = vectors(harness, id, 'hold');
  await waitLong('the upstream is asked for vectors', () => harness.upstream.isEmbedding);
  return { answer, end: () => harness.upstream.embedHeld() };
}

async function getsKey(harness: Harness, id: string): Promise<void> {
  const key = ['provider', 'key', id, '--store', 'file'];
  const { code, stderr } = await harness.home.svc(key, { stdin: 'a-key-of-the-walk\n' });
  assert.is(code, 0, stderr);
  await is(harness, id, 'unknown');
}

/** A prompt, the state of the provider after it, and the model that is asked. */
type Turn = [prompt: string, state: string, model?: string];

/** `keyless`: the file with the key is gone meanwhile. */
async function asks(harness: Harness, id: string, ...turns: Turn[]): Promise<void> {
  for (const [prompt, state, model = 'm'] of turns) {
    if (prompt === 'keyless') rmSync(keyFile(harness));
    const run = await harness.run(prompt, { provider: id, model });
    await harness.untilRun(run, prompt === 'finish' ? 'completed' : 'failed');
    await is(harness, id, state);
    if (prompt === 'keyless') writeKey(harness);
  }
}

async function starts(harness: Harness): Promise<void> {
  writeKey(harness);
  await harness.start('ready');
}

function keyFile({ home }: Harness): string {
  return join(home.folder, 'walk.key');
}

function writeKey(harness: Harness): void {
  writeFileSync(keyFile(harness), 'a-key-of-the-walk', { mode: 0o600 });
}

/** Starts a run that the upstream keeps open. */
async function holds(harness: Harness, id: string, model = 'm'): Promise<string> {
  const { held } = harness.upstream;
  const before = held.size;
  const run = await harness.run('hold', { provider: id, model });
  await waitLong('the upstream is asked', () => held.size > before);
  return run;
}

async function cancels(harness: Harness, run: string): Promise<void> {
  await harness.home.svc(['runs', 'cancel', run]);
  await harness.untilRun(run, 'cancelled');
}

/** One request may try the model `m`. */
function isReady(harness: Harness, id: string): Promise<unknown> {
  return waitLong(`${id}/m may be tried`, async () =>
    (await harness.report()).providers
      .find((provider) => provider.id === id)
      ?.faulty_models.some(({ state }) => state === 'half_open'),
  );
}

/** A run that began before the turns is answered after them. */
async function answersLate(harness: Harness, id: string, ...turns: Turn[]): Promise<void> {
  const early = await holds(harness, id);
  await asks(harness, id, ...turns);
  await harness.upstream.finish();
  await harness.untilRun(early, 'completed');
  await is(harness, id, 'available');
}

async function probes(
  harness: Harness,
  listing: 'list' | 401 | 429 | 500,
  state: string,
): Promise<void> {
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

export const providerScenarios = [
  toldByRuns,
  oneTooMany,
  halfOpen,
  toldByProbes,
  oneModel,
  newKeys,
  embeds,
];
