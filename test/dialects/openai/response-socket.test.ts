import { once } from 'node:events';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type ClientOptions, WebSocket } from 'ws';
import { output, untilAborted } from '../../helpers/scripted-provider.ts';
import { waitFor } from '../../helpers/wait.ts';
import { BEARER, TOKEN } from '../../transport/http/boot.ts';
import { bootReal, type Real } from '../../transport/http/real.ts';
import { asked, end, MODEL } from './boot.ts';

/** Responses over a WebSocket. */
const test = suite<{ real: Real; talk: Talk }>('responses over a WebSocket');

const script = [output('Hello', 1), output(' you', 2), end()];
const LIMITS = { body_bytes: 100_000, close_grace_ms: 200 };

test.before.each(async (context) => {
  const real = await bootReal({ script, limits: LIMITS });
  Object.assign(context, { real, talk: await connect(real) });
});
test.after.each(async ({ real, talk }) => {
  talk.socket.terminate();
  await real.close();
});

// biome-ignore lint/suspicious/noExplicitAny: events of many forms
type Event = any;
interface Talk {
  socket: WebSocket;
  events: Event[];
  closed: Promise<number>;
  say(message: object): void;
  /** All events up to the next one that ends a turn. */
  turn(message?: object): Promise<Event[]>;
}

async function connect(real: Real, options: ClientOptions = {}): Promise<Talk> {
  const url = `ws://${real.host}/v1/responses`;
  const socket = new WebSocket(url, { headers: BEARER, ...options });
  const events: Event[] = [];
  let read = 0;
  socket.on('message', (data) => events.push(JSON.parse(String(data))));
  socket.on('error', () => {});
  const closed = new Promise<number>((resolve) => socket.once('close', resolve));
  const say = (message: object) => socket.send(JSON.stringify(message));
  const turn = async (message?: object) => {
    if (message !== undefined) say(create(message));
    const ends = () => events.findIndex(({ type }, index) => index >= read && ENDS.has(type));
    await waitFor('the end of a turn', () => ends() >= 0);
    const of = events.slice(read, ends() + 1);
    read = ends() + 1;
    return of;
  };
  await once(socket, 'open');
  return { socket, events, closed, say, turn };
}
const ENDS = new Set(['response.completed', 'response.failed', 'response.incomplete', 'error']);
const create = (more: object) => ({ type: 'response.create', model: MODEL, ...more });
const last = (events: readonly Event[]) => events.at(-1);
const errorIn = (events: readonly Event[]) => {
  const { type, status, error } = last(events);
  return [type, status, error?.code, error?.param];
};
const texts = (real: Real) =>
  asked(real).messages.flatMap(({ content }) =>
    content.map((part) => ('text' in part ? part.text : '')),
  );

test('one response after the other, with the events that a stream over HTTP has', async ({
  real,
  talk,
}) => {
  talk.say(create({ input: 'One' }));
  talk.say(create({ input: 'Two' }));
  const [first, second] = [await talk.turn(), await talk.turn()];
  assert.equal(
    first.map(({ type }) => type),
    second.map(({ type }) => type),
  );
  const { id } = last(first).response;
  const { text } = await real.get(`/v1/responses/${id}?stream=true`);
  const streamed = text.split('\n').filter((line) => line.startsWith('data: '));
  assert.equal(
    first,
    streamed.map((line) => JSON.parse(line.slice(6))),
  );
  const runs = real.provider.asked.map(({ request }) => request.messages[0]?.content[0]);
  assert.equal(runs, [
    { type: 'text', text: 'One' },
    { type: 'text', text: 'Two' },
  ]);
});

test('the last response is continued on its connection only, also without store', async ({
  real,
  talk,
}) => {
  const { id } = last(await talk.turn({ input: 'One', store: false })).response;
  const more = { input: 'Two', store: false, previous_response_id: id };
  const other = await connect(real);
  assert.equal(errorIn(await other.turn(more)), [
    'error',
    400,
    'previous_response_not_found',
    'previous_response_id',
  ]);
  assert.is(last(await other.turn({ input: 'Anew' })).type, 'response.completed');
  other.socket.terminate();
  const next = last(await talk.turn(more)).response;
  assert.equal([next.previous_response_id, next.store], [id, false]);
  assert.equal(texts(real), ['One', 'Hello you', 'Two']);
  assert.is(errorIn(await talk.turn(more))[2], 'previous_response_not_found', 'only the last one');
});

test('a failed continuation forgets the response', async ({ talk }) => {
  const { id } = last(await talk.turn({ input: 'One', store: false })).response;
  const result = { type: 'function_call_output', call_id: 'none', output: '' };
  const failed = await talk.turn({ previous_response_id: id, input: [result] });
  assert.equal(errorIn(failed).slice(0, 2), ['error', 400]);
  const stale = await talk.turn({ previous_response_id: id, input: 'Two' });
  assert.is(errorIn(stale)[2], 'previous_response_not_found');
});

test('a request that generates nothing prepares the next one', async ({ real, talk }) => {
  const tools = [{ type: 'custom', name: 'patch' }];
  const brought = { type: 'additional_tools', tools };
  const warm = await talk.turn({
    input: [brought, { role: 'user', content: 'One' }],
    generate: false,
  });
  assert.equal(
    warm.map(({ type }) => type),
    ['response.created', 'response.completed'],
  );
  assert.equal([last(warm).response.output, last(warm).response.usage], [[], null]);
  assert.is(real.provider.asked.length, 0);
  const { id } = last(warm).response;
  await talk.turn({ input: 'Two', previous_response_id: id });
  assert.equal(texts(real), ['One', 'Two']);
  assert.is(asked(real).tools?.[0]?.name, 'patch');
});

test('what requests prepare has the bound of a prompt', async () => {
  const real = await bootReal({ script, limits: { ...LIMITS, prompt_bytes: 1000 } });
  const talk = await connect(real);
  const prepare = (more: object) => talk.turn({ input: 'x'.repeat(600), generate: false, ...more });
  const { id } = last(await prepare({})).response;
  const grown = await prepare({ previous_response_id: id });
  assert.equal(errorIn(grown).slice(0, 3), ['error', 413, 'prompt_too_large']);
  talk.socket.terminate();
  await real.close();
});

test('wrong messages are answered, and the connection goes on', async ({ talk }) => {
  for (const [message, param] of [
    [{ type: 'response.steer' }, 'type'],
    [[], 'type'],
    [create({ input: 'x', background: true }), 'background'],
    [create({ input: 'x', stream_id: 's' }), 'stream_id'],
    [create({ input: [] }), 'input'],
    [create({ input: 'x', temperature: 9 }), 'temperature'],
  ] as const) {
    talk.say(message);
    assert.equal(errorIn(await talk.turn()), ['error', 400, 'invalid_request', param]);
  }
  talk.socket.send('no JSON');
  assert.is(errorIn(await talk.turn())[1], 400);
  const [first] = await talk.turn({ input: 'x', stream: true, surprise: 1 });
  assert.equal(first.svc_ignored, ['surprise']);
});

test('a run that fails is the end of its turn', async ({ real, talk }) => {
  real.provider.script = [output('a', 1), new Error('broken')];
  const events = await talk.turn({ input: 'One' });
  assert.is(last(events).type, 'response.failed');
  real.provider.script = script;
  assert.is(last(await talk.turn({ input: 'Two' })).type, 'response.completed');
});

test('a client that leaves cancels its response, and a stopping daemon says so', async ({
  real,
  talk,
}) => {
  real.provider.script = (_, signal) => [output('a', 1), untilAborted(signal)];
  talk.say(create({ input: 'One' }));
  await waitFor('the answer', () =>
    talk.events.some(({ type }) => type === 'response.output_text.delta'),
  );
  talk.socket.close();
  const run_id = talk.events[0].response.id.replace('resp_', 'run_');
  await waitFor(
    'the cancelled run',
    async () => (await real.runtime.runs.get(run_id)).state === 'cancelled',
  );
  const other = await connect(real);
  other.say(create({ input: 'Two' }));
  await waitFor('an event', () => other.events.length > 0);
  await real.sockets.close();
  assert.is(await other.closed, 1001);
  assert.is(last(other.events).error?.code, 'daemon_stopping');
});

test('messages have the bound of a body, and need a token that may start runs', async ({
  real,
  talk,
}) => {
  talk.say(create({ input: 'x'.repeat(LIMITS.body_bytes) }));
  assert.is(await talk.closed, 1009);
  const refused = new WebSocket(`ws://${real.host}/v1/responses`);
  refused.on('error', () => {});
  const [, { statusCode }] = (await once(refused, 'unexpected-response')) as [
    unknown,
    { statusCode: number },
  ];
  assert.is(statusCode, 401);
});

test('a page of this machine has its token in the path', async ({ real }) => {
  const page = { origin: 'http://localhost:3000' };
  const open = (path: string) =>
    new Promise((resolve) => {
      const socket = new WebSocket(`ws://${real.host}${path}`, page);
      socket.once('error', () => {});
      socket.once('unexpected-response', (_, { statusCode }) => resolve(statusCode));
      socket.once('open', () => {
        socket.terminate();
        resolve('open');
      });
    });
  assert.is(await open(`/t/${TOKEN}/v1/responses`), 'open');
  assert.is(await open(`/t/${TOKEN}x/v1/responses`), 401);
  assert.is(await open('/v1/responses'), 403);
});

test('a connection that was open long enough says so and is closed', async () => {
  const real = await bootReal({ script, limits: { ...LIMITS, talk_ms: 1000 } });
  const talk = await connect(real);
  assert.is(await talk.closed, 1000);
  assert.is(errorIn(talk.events)[2], 'websocket_connection_limit_reached');
  await real.close();
});

test.run();
