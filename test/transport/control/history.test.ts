import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { machines } from '../../../machines/all.ts';
import type { SvcError } from '../../../src/errors.ts';
import { createMethods, type Reply } from '../../../src/transport/control/methods.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import { ScriptedProvider } from '../../helpers/scripted-provider.ts';

const unused = () => Promise.reject(new Error('not here'));
/** The machines and the history over the local socket, from the real runtime. */
const { runtime, store, kernel, config } = await bootRuntime({
  local: new ScriptedProvider('local', []),
});
const methods = createMethods({
  runtime,
  limits: config.limits,
  home: {
    token: () => 't',
    config: () => null,
    configChanges: () => ({ keys: [], problem: null }),
    applyConfig: () => ({ applied: [], after_restart: [] }),
    warning: () => null,
    ticket: () => 'the-ticket',
    changeToken: unused,
    tokens: { list: () => [], create: unused, revoke: unused },
    signInPage: unused,
  },
});
const reply: Reply = {
  signal: new AbortController().signal,
  event: async () => {},
  slice: async () => {},
};
// biome-ignore lint/suspicious/noExplicitAny: the test says which type an answer has
const call = async (method: string, params: Record<string, unknown> = {}): Promise<any> =>
  methods(method, params, reply);
const refused = (method: string, params: Record<string, unknown>) =>
  call(method, params).then(
    () => null,
    (error: SvcError) => [error.code, error.param],
  );

test('the log is read page by page, in full or by stream', async () => {
  const all = await store.readAll(1, 1000);
  assert.equal((await call('log.read', { from_seq: 1, limit: 1000 })).events, all);
  assert.equal((await call('log.read', { from_seq: 3, limit: 2 })).events, all.slice(2, 4));
  assert.equal((await call('log.read', { from_seq: 1e6, limit: 2 })).events, []);
  assert.equal(
    (await call('log.stream', { stream: 'daemon:boot_1', from_version: 2, limit: 1 })).events,
    await store.readStream('daemon:boot_1', 2, 1),
  );
});

test('the state is read, now and at an earlier position, also by the old name of the method', async () => {
  assert.is((await call('state')).seq, kernel.durableSeq);
  assert.is((await call('state', { at: 2 })).seq, 2);
  assert.is((await call('picture', { at: 2 })).seq, 2);
  assert.is((await call('machines')).machines.length, machines.length);
});

test('the console has an address with a ticket', async () => {
  assert.equal(await call('console'), { url: 'http://127.0.0.1:1/#ticket=the-ticket', file: null });
});

test('wrong parameters are refused by name', async () => {
  for (const [method, params, param] of [
    ['log.read', {}, 'from_seq'],
    ['log.read', { from_seq: -1, limit: 1 }, 'from_seq'],
    ['log.read', { from_seq: 1 }, 'limit'],
    ['log.read', { from_seq: 1, limit: '1' }, 'limit'],
    ['log.stream', { from_version: 1, limit: 1 }, 'stream'],
    ['log.stream', { stream: {}, from_version: 1, limit: 1 }, 'stream'],
    ['state', { at: 'x' }, 'at'],
    ['state', { at: 0 }, 'at'],
    ['state', { at: 1e9 }, 'at'],
  ] as const)
    assert.equal(
      await refused(method, params),
      ['invalid_request', param],
      `${method} ${JSON.stringify(params)}`,
    );
});

test.run();
