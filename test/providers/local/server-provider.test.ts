import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { SvcError } from '../../../src/errors.ts';
import { createServerProvider } from '../../../src/providers/local/servers/server-provider.ts';
import { ScriptedProvider } from '../../helpers/scripted-provider.ts';

/** A provider whose server is a scripted one. `works`: work that has not ended. */
function serverOf(remote: ScriptedProvider, models: readonly string[] = ['a', 'b']) {
  let works = 0;
  const process = {
    models,
    remote,
    causeOf: async (thrown: unknown) => new Error(`cause: ${(thrown as Error).message}`),
  };
  const begin = async () => {
    works += 1;
    const end = async () => {
      works -= 1;
    };
    return { process: process as never, waited: {}, end };
  };
  const provider = createServerProvider({
    server: { id: 'mine', command: ['/nonexistent/server'] } as never,
    model: { name: 'b' } as never,
    env: {},
    begin,
    close: async () => {},
    state: () => 'available',
  });
  return { provider, works: () => works };
}

const never = new AbortController().signal;
const failureOf = (work: Promise<unknown> | undefined) =>
  work?.then(() => null).catch((error: unknown) => error as SvcError);

test('a server that computes no embeddings says so, and its work ends', async () => {
  const { provider, works } = serverOf(new ScriptedProvider('mine', []));
  const failure = await failureOf(provider.embed?.('b', ['x'], {}, never));
  assert.match(failure?.message ?? '', /^cause: /);
  assert.is(works(), 0);
});

test('vectors of a server are passed on, and its failures have their cause', async () => {
  const remote = new ScriptedProvider('mine', []);
  let fails = false;
  Object.assign(remote, {
    embed: async () => {
      if (fails) throw new Error('cut off');
      return { vectors: [[1]], input_tokens: 1 };
    },
  });
  const { provider, works } = serverOf(remote);
  const found = await provider.embed?.('b', ['x'], {}, never);
  assert.equal(found, { vectors: [[1]], input_tokens: 1 });
  fails = true;
  assert.is((await failureOf(provider.embed?.('b', ['x'], {}, never)))?.message, 'cause: cut off');
  const gone = await failureOf(provider.embed?.('b', ['x'], {}, AbortSignal.abort()));
  assert.is(gone?.message, 'cut off', 'an abort needs no cause');
  assert.is(works(), 0);
});

test('the configured model is listed first, and no default of the local engine', async () => {
  const remote = new ScriptedProvider('mine', []);
  Object.assign(remote, { embed: async () => ({ vectors: [], input_tokens: 0 }) });
  const { provider } = serverOf(remote);
  const listed = async () =>
    (await provider.models(never)).map((each) => [each.name, each.default]);
  assert.equal(await listed(), [['b', false]]);
  await provider.embed?.('b', [], {}, never);
  assert.equal(await listed(), [
    ['b', false],
    ['a', false],
  ]);
});

test('a program that is not there is named', async () => {
  const { provider } = serverOf(new ScriptedProvider('mine', []));
  const failure = (await failureOf(provider.probe(never))) as SvcError;
  assert.is(failure.code, 'provider_unreachable');
  assert.match(failure.message, '"/nonexistent/server" of mine');
});

test.run();
