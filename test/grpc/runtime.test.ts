import { status } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../src/errors.ts';
import { methodScopes } from '../../src/grpc/runtime.ts';
import { createGrpc, type Grpc } from '../../src/grpc/server.ts';
import { createTokenAccess } from '../../src/transport/auth/token-access.ts';
import { UnsentBytes } from '../../src/transport/stream/unsent-bytes.ts';
import { silent } from '../helpers/kernel.ts';
import { bootRuntime } from '../helpers/runtime.ts';
import { finish, output, ScriptedProvider, untilAborted } from '../helpers/scripted-provider.ts';
import { waitFor } from '../helpers/wait.ts';
import { PROTO } from '../proto.ts';
import { describeSymbol, TOKEN } from './boot.ts';
import {
  detailsOf,
  fromDescriptors,
  type Message,
  type RuntimeClient,
  runtimeClient,
} from './runtime-client.ts';

const RUNTIME = 'svc.runtime.v1.Runtime';
const PNG = Buffer.from('89504e470d0a1a0a0000', 'hex');
const WAV = Buffer.from('RIFF\0\0\0\0WAVEfmt ');

interface World {
  provider: ScriptedProvider;
  daemon: Awaited<ReturnType<typeof bootRuntime>>;
  grpc: Grpc;
  unsent: UnsentBytes;
  address: string;
  client: RuntimeClient;
  /** Ends the token. */
  revoke: AbortController;
  isClosed: boolean;
  /** Codes of refused calls. */
  refused: string[];
}

const test = suite<World>('runs over gRPC');
const broken = new ScriptedProvider('far', [new SvcError('provider_unauthorised')]);

test.before.each(async (context) => {
  context.provider = new ScriptedProvider('local', [output('Hello'), output(' world'), finish()]);
  context.daemon = await bootRuntime({
    local: context.provider,
    remote: { far: { port: broken, kind: 'cloud' } },
    limits: { body_bytes: 1024 * 1024, close_grace_ms: 200 },
  });
  const { limits } = context.daemon.config;
  context.unsent = new UnsentBytes(limits, silent);
  context.revoke = new AbortController();
  context.refused = [];
  context.grpc = createGrpc({
    runtime: context.daemon.runtime,
    limits,
    log: silent,
    unsent: context.unsent,
    access: createTokenAccess({
      settings: { auth: true },
      token: () => TOKEN,
      tokenEnded: () => context.revoke.signal,
    }),
    onRefused: (code) => context.refused.push(code),
  });
  context.address = await context.grpc.listen('127.0.0.1', 0);
  context.client = runtimeClient(context.address);
});

test.after.each(async ({ client, grpc, daemon }) => {
  client.close();
  await grpc.close();
  daemon.kernel.close();
});

/** An answer that begins and then waits until its run is stopped. */
const endless = (world: World) => {
  world.provider.script = (_, signal) => [output('begun'), untilAborted(signal)];
};
const stateOf = async (world: World, id: string) => (await world.daemon.runtime.runs.get(id)).state;

test('a record says what failed, what is left and what crossed to a cloud', async ({ client }) => {
  const more_models = ['local/m2', 'local/m3'];
  const run = client.stream('Run', { prompt: 'hi', model: 'far/m1', more_models });
  assert.is((await run.ended).code, status.OK);
  const record = await client.ask('Get', { id: await run.runId });
  const [failed] = record.failed_attempts;
  assert.equal(
    [failed.provider, failed.model, failed.code],
    ['far', 'm1', 'provider_unauthorised'],
  );
  assert.equal([record.fallbacks, record.model], [['local/m3'], 'm2']);
  const [sent] = record.sent_to_cloud;
  assert.equal([sent.provider, sent.model, sent.attempt], ['far', 'm1', 1]);
  assert.ok(Number(sent.bytes) > 2);
  const { runs } = await client.ask('List', { cloud: true });
  assert.equal(
    runs.map(({ id }: Message) => id),
    [record.id],
  );
});

test('a run streams its events to its end, and is then read, listed and attached', async ({
  client,
}) => {
  const run = client.stream('Run', { prompt: 'Say hello', seed: 7, metadata: { team: 'a' } });
  const { code } = await run.ended;
  assert.is(code, status.OK);
  assert.is(run.text(), 'Hello world');
  const seen = run.updates.filter(({ update }) => update !== 'queue_position');
  assert.is(seen[0].update, 'accepted');
  assert.is(seen[0].accepted.run_id, await run.runId);
  assert.is(seen[0].accepted.provider, 'local');
  assert.is(seen.at(-1).ended.state, 'completed');
  assert.is(seen.at(-1).ended.finish_reason, 'stop');
  assert.equal(seen.at(-1).ended.usage.output_tokens, 1);
  const seqs = seen.map(({ seq }) => seq);
  assert.equal(
    [...seqs].sort((a, b) => a - b),
    seqs,
  );

  const record = await client.ask('Get', { id: await run.runId });
  assert.is(record.output, 'Hello world');
  assert.is(record.prompt, 'Say hello');
  assert.equal(record.metadata, { team: 'a' });
  assert.is(record.seq, seqs.at(-1));
  const { runs } = await client.ask('List', { limit: 5 });
  assert.equal(
    runs.map(({ id }: Message) => id),
    [record.id],
  );

  const again = client.stream('Attach', { id: record.id });
  assert.is((await again.ended).code, status.OK);
  assert.equal(again.updates, seen);
  const middle = seqs[2];
  const rest = client.stream('Attach', { id: record.id, from_seq: middle + 1 });
  await rest.ended;
  assert.equal(rest.updates, seen.slice(3));
  const after = client.stream('Attach', { id: record.id, from_seq: seqs.at(-1) + 1 });
  assert.is((await after.ended).code, status.OK);
  assert.equal(after.updates, []);
});

test('a conversation with tools, an image and a schema reaches the provider as it was sent', async ({
  client,
  provider,
}) => {
  provider.script = [
    { type: 'output', kind: 'reasoning', text: 'hm', token_ids: [] },
    {
      type: 'output',
      kind: 'tool_call',
      text: '{"a":1}',
      token_ids: [],
      call: { id: 'c2', name: 'look' },
    },
    { ...finish(), finish_reason: 'tool_calls' } as never,
  ];
  const schema = { type: 'object', properties: { z: {}, a: {} } };
  const run = client.stream('Run', {
    messages: [
      { role: 'system', content: [{ text: 'be brief' }] },
      {
        role: 'user',
        content: [
          { text: 'see' },
          { image: { media_type: 'image/png', data: PNG } },
          { audio: { media_type: 'audio/wav', data: WAV } },
        ],
      },
      { role: 'assistant', content: [{ tool_call: { id: 'c1', name: 'look', arguments: '{}' } }] },
      { role: 'tool', content: [{ tool_result: { id: 'c1', text: '', is_error: true } }] },
    ],
    tools: [{ name: 'look', parameters_json: JSON.stringify(schema) }],
    tool_choice: { name: 'look' },
    response_format: { type: 'json', schema_json: JSON.stringify(schema) },
    stop: ['END'],
    temperature: 0,
    top_p: 0.5,
    logprobs: 2,
    reasoning_effort: 'high',
    verbosity: 'low',
    parallel_tool_calls: false,
    top_k: 0,
    min_p: 0.5,
    repeat_penalty: 1.5,
    context_tokens: 8192,
  });
  assert.is((await run.ended).code, status.OK);
  const { request } = provider.asked[0] ?? {};
  assert.equal(request?.messages, [
    { role: 'system', content: [{ type: 'text', text: 'be brief' }] },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'see' },
        { type: 'image', media_type: 'image/png', data: PNG.toString('base64') },
        { type: 'audio', media_type: 'audio/wav', data: WAV.toString('base64') },
      ],
    },
    {
      role: 'assistant',
      content: [{ type: 'tool_call', id: 'c1', name: 'look', arguments: '{}' }],
    },
    { role: 'tool', content: [{ type: 'tool_result', id: 'c1', text: '', is_error: true }] },
  ]);
  assert.equal(request?.tools, [{ name: 'look', description: null, parameters: schema }]);
  assert.equal(Object.keys(request?.tools?.[0]?.parameters.properties as object), ['z', 'a']);
  assert.equal(request?.tool_choice, { name: 'look' });
  const { reasoning_effort, parallel_tool_calls, top_k, min_p, repeat_penalty } = request ?? {};
  const { context_tokens } = request ?? {};
  const added = { reasoning_effort, parallel_tool_calls, top_k, min_p, repeat_penalty };
  assert.equal(Object.values(added), ['high', false, 0, 0.5, 1.5]);
  assert.equal([context_tokens, request?.verbosity], [8192, 'low']);
  const shown = await client.ask('Get', { id: await run.runId });
  for (const [name, value] of Object.entries({ ...added, verbosity: 'low' }))
    assert.equal(shown[name], value, name);
  assert.equal(request?.response_format, { type: 'json', name: null, schema });
  assert.equal([request?.stop, request?.temperature, request?.top_p], [['END'], 0, 0.5]);

  const pieces = run.updates.flatMap(({ output }) => (output ? [output] : []));
  assert.equal(
    pieces.map(({ kind, text }) => [kind, text]),
    [
      ['reasoning', 'hm'],
      ['tool_call', '{"a":1}'],
    ],
  );
  assert.equal([pieces[1].call.id, pieces[1].call.name], ['c2', 'look']);
  const record = await client.ask('Get', { id: await run.runId });
  assert.equal(
    record.output_parts.map(({ part }: Message) => part),
    ['reasoning', 'tool_call'],
  );
  assert.is(record.output_parts[1].tool_call.arguments, '{"a":1}');
  const [, image, audio] = record.messages[1].content;
  assert.equal([image.image.size_bytes, audio.audio.size_bytes], [PNG.length, WAV.length]);
  assert.is(record.tools[0].parameters_json, JSON.stringify(schema));
  assert.is(record.tool_choice.name, 'look');
});

test('a client from reflection alone has the same fields', async ({ client, address }) => {
  const files = await describeSymbol(address, 'v1', RUNTIME);
  const other = runtimeClient(address, { definition: fromDescriptors(files) });
  const run = other.stream('Run', { prompt: 'x', temperature: 0.5 });
  assert.is((await run.ended).code, status.OK);
  assert.is(run.text(), 'Hello world');
  const id = await run.runId;
  assert.equal(await other.ask('Get', { id }), await client.ask('Get', { id }));
  other.close();
});

test('a call without the token, or with a wrong one, is refused and counted', async ({
  client,
  daemon,
  refused: codes,
}) => {
  for (const token of [null, 'wrong', '']) {
    for (const method of ['Get', 'List', 'Cancel', 'Models', 'Providers', 'Status', 'Stop']) {
      const refused = await client.refusal(method, {}, { token });
      assert.is(refused.code, status.UNAUTHENTICATED, method);
    }
    for (const method of ['Run', 'Attach', 'WatchStatus']) {
      const { ended } = client.stream(method, { prompt: 'x' }, { token });
      assert.is((await ended).code, status.UNAUTHENTICATED, method);
    }
  }
  assert.equal((await daemon.runtime.runs.list({})).runs, []);
  assert.equal(codes, Array(30).fill('unauthorised'));
});

test('bad input is refused with the name of the field, in the standard form', async ({
  client,
}) => {
  const bad: [object, string][] = [
    [{}, 'prompt'],
    [{ prompt: 'x', temperature: 5 }, 'temperature'],
    [{ prompt: 'x', temperature: Number.NaN }, 'temperature'],
    [{ prompt: 'x', messages: [{ role: 'user', content: [{ text: 'y' }] }] }, 'messages'],
    [{ messages: [{ role: 'boss', content: [{ text: 'y' }] }] }, 'messages.0.role'],
    [{ messages: [{ role: 'user', content: [{}] }] }, 'messages.0.content'],
    [{ messages: [{ role: 'user' }] }, 'messages.0.content'],
    [
      {
        messages: [
          {
            role: 'user',
            content: [{ image: { media_type: 'image/png', data: Buffer.from('no') } }],
          },
        ],
      },
      'messages.0.content.0',
    ],
    [{ prompt: 'x', tools: [{ name: 'f', parameters_json: '{' }] }, 'tools.0.parameters_json'],
    [{ prompt: 'x', tools: [{ name: 'f', parameters_json: '3' }] }, 'tools.0.parameters'],
    [{ prompt: 'x', tools: [{ name: 'not a name' }] }, 'tools.0.name'],
    [{ prompt: 'x', tool_choice: { mode: 'maybe' } }, 'tool_choice'],
    [{ prompt: 'x', recovery: 'never' }, 'recovery'],
    [{ messages: [{ role: 'user', content: Array(10_000).fill({ text: 'x' }) }] }, 'messages'],
  ];
  for (const [request, param] of bad) {
    const refused = await client.stream('Run', request).ended;
    assert.is(refused.code, status.INVALID_ARGUMENT, JSON.stringify(request));
    const { ErrorInfo } = detailsOf(refused);
    assert.is(ErrorInfo.domain, 'svc');
    assert.ok(ErrorInfo.metadata.param.startsWith(param), ErrorInfo.metadata.param);
    assert.is(ErrorInfo.metadata.retryable, 'false');
    assert.is(ErrorInfo.reason, ErrorInfo.metadata.code.toUpperCase());
    assert.ok(ErrorInfo.metadata.hint.length > 10);
  }
  const unknown = await client.refusal('Get', { id: 'run_nothing' });
  assert.is(unknown.code, status.NOT_FOUND);
  assert.is(detailsOf(unknown).ErrorInfo.reason, 'RUN_UNKNOWN');
  const far = await client.stream('Attach', { id: 'run_nothing', from_seq: 99 }).ended;
  assert.is(far.code, status.NOT_FOUND);
});

test('a message that is too large is refused, and a public service takes small ones only', async ({
  client,
  address,
}) => {
  const large = await client.stream('Run', { prompt: 'x'.repeat(1024 * 1024 + 1) }).ended;
  assert.is(large.code, status.RESOURCE_EXHAUSTED);
  const symbol = 'x'.repeat(70 * 1024);
  const refused = await describeSymbol(address, 'v1', symbol).catch((error) => error);
  assert.is(refused.code, status.RESOURCE_EXHAUSTED);
});

test('a cancelled call cancels its run, and a detached run continues', async (world) => {
  endless(world);
  const run = world.client.stream('Run', { prompt: 'x' });
  await waitFor('it begins', () => run.text() === 'begun');
  run.call.cancel();
  const id = await run.runId;
  await waitFor('the run is cancelled', async () => (await stateOf(world, id)) === 'cancelled');
  assert.is(world.provider.open, 0);

  const other = world.client.stream('Run', { prompt: 'x', detach: true });
  await waitFor('it begins', () => other.text() === 'begun');
  other.call.cancel();
  await other.ended;
  const attached = world.client.stream('Attach', { id: await other.runId });
  await waitFor('the run is followed', () => attached.text() === 'begun');
  assert.is(await stateOf(world, await other.runId), 'streaming');
  const cancelled = await world.client.ask('Cancel', { id: await other.runId });
  assert.is(cancelled.state, 'cancelled');
  assert.is((await attached.ended).code, status.CANCELLED);
  assert.is(attached.updates.at(-1).ended.error.code, 'run_cancelled');
});

test('the deadline of a call is the time limit of its run', async (world) => {
  endless(world);
  const deadline = Date.now() + 60_000;
  const run = world.client.stream('Run', { prompt: 'x' }, { deadline });
  await waitFor('it begins', () => run.text() === 'begun');
  const id = await run.runId;
  const [accepted] = await world.daemon.runtime.history.readStream(id, 1, 1);
  const { deadline_at } = (accepted?.data ?? {}) as { deadline_at: number };
  const limit = deadline_at - world.daemon.clock.now();
  assert.ok(limit > 0 && limit <= 60_000, String(limit));
  await world.daemon.clock.advance(60_000);
  const { code, details } = await run.ended;
  assert.is(code, status.DEADLINE_EXCEEDED);
  assert.match(details, /time limit/);
  assert.is(run.updates.at(-1).ended.state, 'timed_out');
  assert.is(await stateOf(world, id), 'timed_out');

  const free = world.client.stream('Run', { prompt: 'x', detach: true }, { deadline });
  const [event] = await world.daemon.runtime.history.readStream(await free.runId, 1, 1);
  const { deadline_at: unbound } = (event?.data ?? {}) as { deadline_at: number };
  assert.is(unbound, (event?.at ?? 0) + world.daemon.config.limits.run_ms);
});

test('a key gives the same run under another deadline', async ({ client }) => {
  const request = { prompt: 'x', idempotency_key: 'k-1' };
  const one = client.stream('Run', request, { deadline: Date.now() + 50_000 });
  const other = client.stream('Run', request, { deadline: Date.now() + 90_000 });
  assert.equal([(await one.ended).code, (await other.ended).code], [status.OK, status.OK]);
  assert.is(await one.runId, await other.runId);
  assert.is(other.text(), 'Hello world');
});

test('a failed run ends its call with the status of its error', async (world) => {
  world.provider.script = [output('par'), new Error('a defect')];
  const run = world.client.stream('Run', { prompt: 'x' });
  const refused = await run.ended;
  assert.is(run.updates.at(-1).ended.state, 'failed');
  assert.is(run.updates.at(-1).ended.error.code, 'provider_failed');
  assert.is(refused.code, status.UNAVAILABLE);
  assert.is(detailsOf(refused).ErrorInfo.metadata.code, 'provider_failed');
});

test('each method declares its scope', () => {
  const methods = Object.keys(loadSync(PROTO)[RUNTIME] ?? {});
  assert.equal(
    Object.keys(methodScopes).sort(),
    methods.sort(),
    'npm run docs makes docs/runtime.proto',
  );
});

test('a daemon that is not in a fleet has no nodes, and drains none', async ({ client }) => {
  assert.equal((await client.ask('Nodes')).nodes ?? [], []);
  const refused = await client.refusal('DrainNode', { id: 'node_1' });
  assert.is(refused.code, status.NOT_FOUND);
  assert.is(detailsOf(refused).ErrorInfo.metadata.code, 'node_unknown');
});

test('a full daemon says when to try again', async (world) => {
  world.unsent.enter(() => {}).setOwnBytes(world.daemon.config.limits.unsent_bytes);
  const refused = await world.client.stream('Run', { prompt: 'x' }).ended;
  assert.is(refused.code, status.RESOURCE_EXHAUSTED);
  assert.equal(detailsOf(refused).RetryInfo.retry_delay, { seconds: 1, nanos: 0 });
});

test('streams end with UNAVAILABLE when the daemon stops, and no run is cancelled', async (world) => {
  endless(world);
  const run = world.client.stream('Run', { prompt: 'x' });
  const watched = world.client.stream('WatchStatus');
  await waitFor('both began', () => run.text() === 'begun' && watched.updates.length > 0);
  await world.grpc.close();
  for (const { ended } of [run, watched]) {
    const { code, details } = await ended;
    assert.is(code, status.UNAVAILABLE);
    assert.match(details, /^The daemon stops\./);
  }
  assert.is(await stateOf(world, await run.runId), 'streaming');
});

test('what a token admitted ends with it', async (world) => {
  endless(world);
  const run = world.client.stream('Run', { prompt: 'x', detach: true });
  await waitFor('it begins', () => run.text() === 'begun');
  const { SvcError } = await import('../../src/errors.ts');
  world.revoke.abort(new SvcError('unauthorised', 'The token was changed.'));
  const { code, details } = await run.ended;
  assert.equal([code, details], [status.UNAUTHENTICATED, 'The token was changed.']);
});

test('a client that does not read costs a page, and gets the whole answer when it reads', async (world) => {
  const piece = 'x'.repeat(64 * 1024);
  const steps = Array.from({ length: 80 }, (_, n) => [
    output(`${n}:${piece}`),
    () => new Promise<void>((resolve) => setImmediate(resolve)),
  ]).flat();
  world.provider.script = [...steps, finish()];
  const run = world.client.stream('Run', { prompt: 'x', detach: true });
  run.call.pause();
  const id = await run.runId;
  await waitFor('the run ends', async () => (await stateOf(world, id)) === 'completed');
  const whole = 80 * piece.length;
  assert.ok(world.unsent.bytes > 0, 'the page is counted');
  assert.ok(world.unsent.bytes < whole / 2, String(world.unsent.bytes));
  run.call.resume();
  assert.is((await run.ended).code, status.OK);
  assert.is(run.text().length, (await world.daemon.runtime.runs.get(id)).output.length);
  await waitFor('nothing is counted any more', () => world.unsent.bytes === 0);
});

test('models, providers and the status are those of the runtime, and Stop stops it', async (world) => {
  const { runtime } = world.daemon;
  const { models } = await world.client.ask('Models');
  assert.equal(
    models.map(({ id }: Message) => id),
    ['far/m'],
  );
  const { providers } = await world.client.ask('Providers');
  assert.equal(
    providers.map(({ id, state }: Message) => [id, state]),
    runtime.providers.list().map(({ id, state }) => [id, state]),
  );
  const found = await world.client.ask('Status');
  assert.is(found.health.ready, true);
  assert.equal([found.boot_id, found.seq], [runtime.status().boot_id, runtime.status().seq]);
  const watched = world.client.stream('WatchStatus');
  await waitFor('the state', () => watched.updates.length === 1);
  const refused = await world.client.refusal('Stop', { mode: 'gently' });
  assert.is(refused.code, status.INVALID_ARGUMENT);
  const stopped = await world.client.ask('Stop', { mode: 'drain', timeout_ms: 1000 });
  assert.is(stopped.state, 'stopping');
  await waitFor('the watcher hears it', () => watched.updates.at(-1)?.state === 'stopping');
  assert.is(watched.updates.at(-1).ready, false);
});

test.run();
