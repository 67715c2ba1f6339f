import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type ErrorCode, errors } from '../../../src/errors.ts';
import type { Limits } from '../../../src/limits.ts';
import { remote } from '../../helpers/remote.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import { ScriptedProvider } from '../../helpers/scripted-provider.ts';
import { turns } from '../../helpers/turns.ts';
import { type Scenario, Upstream } from '../../helpers/upstream.ts';
import { waitFor } from '../../helpers/wait.ts';

/**
 * What a run makes of each fault of its provider: its code, whether it is asked again, its exit
 * code, its events, its sentence, and that the connection is closed.
 */

interface Fault {
  name: string;
  scenario?: Scenario;
  /** Another address than that of the server. */
  base_url?: string;
  /** Nothing listens there. */
  closed?: boolean;
  /** The address says `https:`. */
  tls?: boolean;
  code: ErrorCode;
  /** What the exit code of `svc run` is. */
  exit: number;
  path: string;
  says: RegExp;
  limits?: Partial<Limits>;
  /** A deadline ends it: the clock moves once the server is asked. */
  silent?: boolean;
}

const AGAIN = 'started attempt_failed started failed';
const ONCE = 'started failed';
const CUT = 'started output_appended interrupted';
const status =
  (code: number, error: object = { message: 'so it is' }): Scenario =>
  (exchange) =>
    exchange.reply(code, { error });

const faults: Fault[] = [
  {
    name: 'connection refused',
    closed: true,
    code: 'provider_unreachable',
    exit: 9,
    path: AGAIN,
    says: /refuses the connection/,
  },
  {
    name: 'unknown name',
    base_url: 'http://nowhere.invalid/v1',
    code: 'provider_address_unknown',
    exit: 9,
    path: '',
    says: /name/,
  },
  {
    name: 'TLS to a server without TLS',
    tls: true,
    code: 'provider_tls_failed',
    exit: 9,
    path: ONCE,
    says: /does not speak TLS/,
  },
  {
    name: '401',
    scenario: status(401),
    code: 'provider_unauthorised',
    exit: 5,
    path: ONCE,
    says: /credentials.*status 401/,
  },
  {
    name: '402',
    scenario: status(402),
    code: 'provider_quota_exceeded',
    exit: 9,
    path: ONCE,
    says: /quota.*so it is/,
  },
  {
    name: '403',
    scenario: status(403),
    code: 'provider_forbidden',
    exit: 5,
    path: ONCE,
    says: /does not allow.*so it is/,
  },
  {
    name: '404',
    scenario: status(404),
    code: 'provider_not_found',
    exit: 9,
    path: ONCE,
    says: /nothing at this address/,
  },
  {
    name: 'unknown model',
    scenario: status(404, { message: 'no', code: 'model_not_found' }),
    code: 'model_unknown',
    exit: 7,
    path: ONCE,
    says: /does not have the model "m"/,
  },
  {
    name: '408',
    scenario: status(408),
    code: 'provider_timed_out',
    exit: 9,
    path: AGAIN,
    says: /took too long/,
  },
  {
    name: '409',
    scenario: status(409),
    code: 'provider_conflict',
    exit: 9,
    path: AGAIN,
    says: /conflict/,
  },
  {
    name: '413',
    scenario: status(413),
    code: 'provider_too_large',
    exit: 9,
    path: ONCE,
    says: /of this size/,
  },
  {
    name: '429',
    scenario: status(429),
    code: 'provider_busy',
    exit: 9,
    path: AGAIN,
    says: /too many requests.*429/,
  },
  {
    name: 'no quota left',
    scenario: status(429, { message: 'pay', code: 'insufficient_quota' }),
    code: 'provider_quota_exceeded',
    exit: 9,
    path: ONCE,
    says: /quota/,
  },
  {
    name: '500',
    scenario: status(500),
    code: 'provider_failed',
    exit: 9,
    path: AGAIN,
    says: /failed \(status 500\)/,
  },
  {
    name: '503',
    scenario: status(503),
    code: 'provider_overloaded',
    exit: 9,
    path: AGAIN,
    says: /status 503/,
  },
  {
    name: '529',
    scenario: status(529),
    code: 'provider_overloaded',
    exit: 9,
    path: AGAIN,
    says: /overloaded \(status 529\)/,
  },
  {
    name: 'content filter',
    scenario: status(400, { message: 'no', code: 'content_filter' }),
    code: 'content_filtered',
    exit: 10,
    path: ONCE,
    says: /refused.*filter/,
  },
  {
    name: 'overloaded inside the stream',
    scenario: (exchange) =>
      exchange.open().event({ error: { type: 'overloaded_error', message: 'full' } }),
    code: 'provider_overloaded',
    exit: 9,
    path: AGAIN,
    says: /overloaded.*full/,
  },
  {
    name: 'cut before any text',
    scenario: (exchange) => exchange.open().socket.destroy(),
    code: 'stream_truncated',
    exit: 10,
    path: AGAIN,
    says: /broke|ended/,
  },
  {
    name: 'cut stream',
    scenario: async (exchange) => {
      await exchange.open().text('some ');
      await exchange.text('text');
      exchange.socket.destroy();
    },
    code: 'stream_truncated',
    exit: 10,
    path: CUT,
    says: /broke|ended/,
  },
  {
    name: 'garbage in the stream',
    scenario: async (exchange) => {
      await exchange.open().text('some text');
      await exchange.event('{"garbage');
      await exchange.done();
    },
    code: 'stream_garbled',
    exit: 10,
    path: CUT,
    says: /cannot be understood/,
  },
  {
    name: 'garbage before any text',
    scenario: async (exchange) => {
      await exchange.open().event('{"garbage');
      await exchange.done();
    },
    code: 'stream_garbled',
    exit: 10,
    path: ONCE,
    says: /not retried/,
  },
  {
    name: 'a stop without an answer',
    scenario: (exchange) => exchange.answer(),
    limits: {},
    code: 'answer_empty',
    exit: 10,
    path: AGAIN,
    says: /answered with nothing/,
  },
  {
    name: 'over-long line',
    scenario: (exchange) =>
      void exchange
        .open()
        .text('x'.repeat(100_000))
        .catch(() => undefined),
    limits: { provider_event_bytes: 16_384 },
    code: 'stream_oversized',
    exit: 10,
    path: ONCE,
    says: /16384 bytes/,
  },
  {
    name: 'silence before the first byte',
    scenario: () => undefined,
    silent: true,
    code: 'provider_silent',
    exit: 124,
    path: 'started deadline_passed timed_out',
    says: /did not begin to answer within 5 s/,
  },
  {
    name: 'silence in the middle',
    scenario: (exchange) => exchange.open().text('some text'),
    silent: true,
    code: 'provider_stalled',
    exit: 124,
    path: 'started output_appended deadline_passed timed_out',
    says: /sent nothing more within 5 s/,
  },
];

for (const { name, scenario, base_url, code, exit, path, says, limits, silent, ...at } of faults)
  test(`${name}: ${code}`, async () => {
    const { closed = false, tls = false } = at;
    const upstream = await Upstream.start((exchange) =>
      exchange.received.path.endsWith('/models')
        ? exchange.reply(200, { data: [{ id: 'm' }] })
        : scenario?.(exchange),
    );
    const own = tls ? upstream.base_url.replace('http:', 'https:') : upstream.base_url;
    const address = base_url ?? own;
    if (closed) await upstream.stop();
    const port = remote(address, { ...(limits ? { limits } : {}) });
    const { runtime, kernel, clock, store } = await bootRuntime({
      local: new ScriptedProvider('local', []),
      remote: { test: { port, kind: 'cloud' } },
      limits: { run_attempts: 2, first_output_ms: 5000, idle_ms: 5000 },
    });
    const { id } = await runtime.runs.start(
      { prompt: 'a long enough prompt', provider: 'test' },
      '',
    );
    await waitFor('the end', async () => {
      const { state } = (await runtime.runs.get(id)) ?? {};
      const isReached = upstream.received.some(({ path }) => path.endsWith('/completions'));
      if (
        state === 'backoff' ||
        (silent && isReached && (name.includes('first') || state === 'streaming'))
      )
        clock.advance(1000);
      await turns();
      return !kernel.instances.has(id);
    });
    const run = await runtime.runs.get(id);
    assert.is(run.error?.code, code);
    assert.match(run.error?.message ?? '', /^test /, 'the sentence begins with the provider');
    assert.match(run.error?.message ?? '', says);
    assert.not.match(run.error?.hint ?? '', /<(run|provider|id)>/);
    assert.is(errors[code].exit, exit);
    const events = await store.readStream(id, 1, 100);
    const types = events
      .map(({ type }) => type.replace('run.', ''))
      .filter((type) => type !== 'accepted' && type !== 'sent_to_cloud');
    const once = types.filter((type, index) => type !== types[index - 1]).join(' ');
    if (path !== '') assert.is(once, path);
    if (path !== '') assert.is(run.error?.retryable, code !== 'stream_garbled' && path !== ONCE);
    await runtime.providers.remove('test');
    await waitFor('the connection is closed', () => upstream.sockets.size === 0);
    if (!closed) await upstream.stop();
  });

test.run();
