import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { promptOf } from '../../../src/contract/messages/parts.ts';
import type { SvcError } from '../../../src/errors.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import {
  finish,
  gate,
  output,
  ScriptedProvider,
  untilAborted,
} from '../../helpers/scripted-provider.ts';
import { turns } from '../../helpers/turns.ts';

const codeOf = (work: Promise<unknown>) =>
  work.then(() => null).catch((error: SvcError) => error.code);

const { signal: untilEnd } = new AbortController();

/** Answers one run at each call, in the order in which they arrive. */
function stepwise(id: string) {
  const waiting: (() => void)[] = [];
  const provider = new ScriptedProvider(id, () => {
    const { opened, open } = gate();
    waiting.push(open);
    return [() => opened, output('x'), finish()];
  });
  const one = async () => {
    waiting.shift()?.();
    await turns();
  };
  return { provider, one, asked: () => provider.asked.map(({ request }) => promptOf(request)) };
}

test('a client with one run does not wait behind the fifty of another', async () => {
  const { provider, one, asked } = stepwise('local');
  const { runtime } = await bootRuntime({ local: provider, limits: { local_runs: 1 } });
  for (let index = 0; index < 50; index += 1)
    await runtime.runs.start({ prompt: `many ${index}` }, 'many');
  const single = await runtime.runs.start({ prompt: 'single' }, 'one');
  assert.is((await runtime.runs.get(single.id)).queue_position, 1);
  await one();
  assert.equal(asked(), ['many 0', 'single']);
  for (let index = 0; index < 50; index += 1) await one();
  assert.equal(
    asked().slice(2),
    Array.from({ length: 49 }, (_, index) => `many ${index + 1}`),
    'and within a client, first come first served',
  );
});

test('clients are served in turn, however many runs each has', async () => {
  const { provider, one, asked } = stepwise('local');
  const { runtime } = await bootRuntime({ local: provider, limits: { local_runs: 1 } });
  for (let index = 0; index < 4; index += 1)
    await runtime.runs.start({ prompt: `a${index}`, client: 'a' }, 'socket');
  for (let index = 0; index < 3; index += 1)
    await runtime.runs.start({ prompt: `b${index}`, client: 'b' }, 'socket');
  for (let index = 0; index < 2; index += 1)
    await runtime.runs.start({ prompt: `c${index}`, client: 'c' }, 'socket');
  for (let index = 0; index < 9; index += 1) await one();
  const served = asked().map((prompt) => prompt[0]);
  assert.equal(
    asked().filter((prompt) => prompt.startsWith('a')),
    ['a0', 'a1', 'a2', 'a3'],
  );
  assert.ok(served.indexOf('b') <= 2 && served.indexOf('c') <= 3, served.join(''));
  assert.ok(served.lastIndexOf('c') <= 6, served.join(''));
});

test('runs cancelled in the queue cost their client no turn', async () => {
  const { provider, one, asked } = stepwise('local');
  const { runtime } = await bootRuntime({ local: provider, limits: { local_runs: 1 } });
  await runtime.runs.start({ prompt: 'first' }, 'other');
  const given: string[] = [];
  for (let index = 0; index < 20; index += 1)
    given.push((await runtime.runs.start({ prompt: 'never' }, 'fickle')).id);
  for (const id of given) await runtime.runs.cancel(id, 'test');
  for (let index = 0; index < 5; index += 1)
    await runtime.runs.start({ prompt: `other ${index}` }, 'other');
  await runtime.runs.start({ prompt: 'meant' }, 'fickle');
  for (let index = 0; index < 6; index += 1) await one();
  assert.ok(asked().indexOf('meant') <= 2, asked().join());
});

test('progress at one provider does not change the order at another', async () => {
  const [slow, quick] = [stepwise('slow'), stepwise('quick')];
  const remote = {
    slow: { port: slow.provider, kind: 'local' as const, max_runs: 1 },
    quick: { port: quick.provider, kind: 'local' as const },
  };
  const { runtime } = await bootRuntime({ local: new ScriptedProvider('local', []), remote });
  for (let index = 0; index < 20; index += 1)
    await runtime.runs.start({ prompt: `many ${index}`, provider: 'slow' }, 'many');
  for (let index = 0; index < 30; index += 1) {
    await runtime.runs.start({ prompt: 'x', provider: 'quick' }, 'busy');
    await quick.one();
  }
  await runtime.runs.start({ prompt: 'single', provider: 'slow' }, 'one');
  await slow.one();
  await slow.one();
  assert.ok(slow.asked().includes('single'), slow.asked().join());
});

test('a watcher gets each position of the run, and the end of its wait', async () => {
  const { provider, one } = stepwise('local');
  const { runtime } = await bootRuntime({ local: provider, limits: { local_runs: 1 } });
  const ids: string[] = [];
  for (let index = 0; index < 4; index += 1)
    ids.push((await runtime.runs.start({ prompt: String(index) }, 'test')).id);
  const positions: (number | null)[] = [];
  runtime.queue.watch(ids[3] as string, (position) => positions.push(position), untilEnd);
  assert.equal(positions, [3]);
  await one();
  await runtime.runs.cancel(ids[2] as string, 'test');
  await one();
  assert.equal(positions, [3, 2, 1, null]);
  await one();
  assert.equal(positions, [3, 2, 1, null]);
  const late: (number | null)[] = [];
  runtime.queue.watch(ids[3] as string, (position) => late.push(position), untilEnd);
  assert.equal(late, [null]);
});

test('a closed watcher gets nothing more', async () => {
  const { provider, one } = stepwise('local');
  const { runtime } = await bootRuntime({ local: provider, limits: { local_runs: 1 } });
  for (let index = 0; index < 3; index += 1)
    await runtime.runs.start({ prompt: String(index) }, 'test');
  const { id } = await runtime.runs.start({ prompt: 'last' }, 'test');
  const positions: (number | null)[] = [];
  const watching = new AbortController();
  runtime.queue.watch(id, (position) => positions.push(position), watching.signal);
  watching.abort();
  await one();
  assert.equal(positions, [3]);
});

test('a provider never gets more runs than its own limit, and does not delay the others', async () => {
  const small = new ScriptedProvider('small', (_, signal) => [untilAborted(signal)]);
  const large = new ScriptedProvider('large', (_, signal) => [untilAborted(signal)]);
  const remote = {
    small: { port: small, kind: 'local' as const, max_runs: 1 },
    large: { port: large, kind: 'local' as const },
  };
  const { runtime } = await bootRuntime({
    local: new ScriptedProvider('local', []),
    remote,
    limits: { provider_runs: 3 },
  });
  const ids: string[] = [];
  for (let index = 0; index < 3; index += 1)
    ids.push((await runtime.runs.start({ prompt: String(index), provider: 'small' }, 'test')).id);
  for (let index = 0; index < 5; index += 1)
    await runtime.runs.start({ prompt: String(index), provider: 'large' }, 'test');
  await turns();
  assert.equal([small.open, large.open], [1, 3]);
  await runtime.runs.cancel(ids[0] as string, 'test');
  await turns();
  assert.equal([small.open, small.asked.length], [1, 2]);
});

test('the bound on the runs of the daemon applies to many simultaneous requests too', async () => {
  const { runtime } = await bootRuntime({
    local: new ScriptedProvider('local', (_, signal) => [untilAborted(signal)]),
    limits: { queue_runs: 5 },
  });
  const codes = await Promise.all(
    Array.from({ length: 20 }, (_, index) =>
      codeOf(runtime.runs.start({ prompt: 'x' }, `client ${index}`)),
    ),
  );
  assert.is(codes.filter((code) => code === null).length, 5);
  assert.is(codes.filter((code) => code === 'busy').length, 15);
});

test('while the disk is full no run is accepted or started; running answers finish, and then the queue continues', async () => {
  const { provider, one, asked } = stepwise('local');
  const { runtime, propose } = await bootRuntime({ local: provider, limits: { local_runs: 1 } });
  const ids: string[] = [];
  for (const prompt of ['0', '1']) ids.push((await runtime.runs.start({ prompt }, 'test')).id);
  await propose({ type: 'daemon.store_filled' });
  assert.is(runtime.probe().ready, false);
  assert.is(await codeOf(runtime.runs.start({ prompt: 'x' }, 'test')), 'store_full');
  await one();
  assert.equal([(await runtime.runs.get(ids[0] as string)).state, asked()], ['completed', ['0']]);
  await propose({ type: 'daemon.store_freed' });
  await turns();
  assert.equal([runtime.probe().ready, asked()], [true, ['0', '1']]);
  assert.is(await codeOf(runtime.runs.start({ prompt: 'x' }, 'test')), null);
});

test('a drain that begins while the disk is full answers the queued runs', async () => {
  const { provider, one, asked } = stepwise('local');
  const { runtime, propose, closed } = await bootRuntime({
    local: provider,
    limits: { local_runs: 1 },
  });
  for (const prompt of ['0', '1']) await runtime.runs.start({ prompt }, 'test');
  await propose({ type: 'daemon.store_filled' });
  await one();
  await runtime.lifecycle({ type: 'stop_requested' }, 'test');
  await turns();
  assert.equal(asked(), ['0', '1']);
  await one();
  assert.is(closed.length, 1);
});

test.run();
