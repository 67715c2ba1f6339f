import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { waitFor } from '../../helpers/wait.ts';
import { ask, BEARER, type Booted, boot, TOKEN, wire } from './boot.ts';

const test = suite<{ http: Booted }>('events of a run over HTTP');

test.before.each(async (context) => {
  context.http = await boot();
});

test.after.each(({ http }) => http.close());

/**
 * A server that soon sends comments, and soon closes a client that does not read. It also closes
 * one that reads, when this process gets no processor for 200 ms.
 */
async function beatsOften(context: { http: Booted }): Promise<Booted> {
  await context.http.close();
  context.http = await boot({ limits: { heartbeat_ms: 100 } });
  return context.http;
}

interface Event {
  id: string | null;
  event: string;
  data: Record<string, unknown>;
}

interface Stream {
  res: IncomingMessage;
  text(): string;
  events(): Event[];
  ended: Promise<void>;
  leave(): void;
}

async function open(
  url: string,
  options: { method?: string; headers?: Record<string, string>; body?: object } = {},
): Promise<Stream> {
  const { method = 'GET', headers = {}, body } = options;
  const req = request(url, {
    method,
    headers: { ...BEARER, 'content-type': 'application/json', ...headers },
    agent: false,
  });
  req.on('error', () => {});
  req.end(body === undefined ? undefined : JSON.stringify(body));
  const [res] = (await once(req, 'response')) as [IncomingMessage];
  let text = '';
  res.setEncoding('utf8').on('data', (chunk) => {
    text += chunk;
  });
  res.on('error', () => {});
  return {
    res,
    text: () => text,
    events: () => parse(text),
    ended: new Promise((resolve) => res.once('close', () => resolve())),
    leave: () => req.destroy(),
  };
}

function parse(text: string): Event[] {
  const blocks = text.split('\n\n').slice(0, -1);
  const field = (block: string, name: string) =>
    new RegExp(`(?:^|\\n)${name}: ([^\\n]*)`).exec(block)?.[1] ?? null;
  return blocks
    .filter((block) => !block.startsWith(':'))
    .map((block) => ({
      id: field(block, 'id'),
      event: field(block, 'event') ?? '',
      data: JSON.parse(field(block, 'data') ?? 'null'),
    }));
}

function textOf(event: Event | undefined): unknown {
  return (event?.data.data as Record<string, unknown> | undefined)?.text;
}

function errorCode(event: Event | undefined): unknown {
  return (event?.data.error as Record<string, unknown> | undefined)?.code;
}

const start = (http: Booted, body: object = { prompt: 'a' }) =>
  open(`${http.url}/v1/runs`, { method: 'POST', headers: { accept: 'text/event-stream' }, body });

test('a run requested as a stream sends its events and ends after the last one', async ({
  http,
}) => {
  const stream = await start(http);
  assert.is(stream.res.statusCode, 200);
  assert.is(stream.res.headers['content-type'], 'text/event-stream');
  assert.is(stream.res.headers['cache-control'], 'no-store');
  assert.is(stream.res.headers['x-svc-run-id'], 'run_1');
  http.runtime.append('run_1', 'run.output_appended', { text: 'line\nline\r\n\u2028é' });
  const last = http.runtime.append('run_1', 'run.completed');
  await stream.ended;
  const events = stream.events();
  assert.equal(
    events.map(({ event }) => event),
    ['run.accepted', 'run.output_appended', 'run.completed'],
  );
  assert.equal(textOf(events[1]), 'line\nline\r\n\u2028é');
  assert.is(events.at(-1)?.id, String(last.seq));
  assert.equal(events.at(-1)?.data, { ...last });
  assert.ok(stream.res.complete);
});

test('events are sent as they happen, and comments between them', async (context) => {
  const http = await beatsOften(context);
  const stream = await start(http);
  await waitFor('the first event', () => stream.events().length === 1);
  await waitFor('a heartbeat', () => stream.text().includes('\n\n: \n\n'));
  http.runtime.append('run_1', 'run.output_appended', { text: 'x' });
  await waitFor('the second event', () => stream.events().length === 2);
  stream.leave();
});

test('a resumed stream continues after the last event of the client, without loss or repeat', async ({
  http,
}) => {
  await ask(`${http.url}/v1/runs`, { method: 'POST', headers: BEARER, body: { prompt: 'a' } });
  const seqs = [1, 2, 3, 4].map(
    (n) => http.runtime.append('run_1', 'run.output_appended', { text: String(n) }).seq,
  );
  const events = `${http.url}/v1/runs/run_1/events`;
  const first = await open(events, { headers: { 'last-event-id': String(seqs[1]) } });
  await waitFor('what is there', () => first.events().length === 2);
  http.runtime.append('run_1', 'run.completed');
  await first.ended;
  assert.equal(first.events().map(textOf), ['3', '4', undefined]);
  const from = await open(`${events}?from=${seqs[3]}`);
  await from.ended;
  assert.is(from.events().length, 2);
  const both = await open(`${events}?from=1`, { headers: { 'last-event-id': String(seqs[3]) } });
  await both.ended;
  assert.is(both.events().length, 1, 'the header is newer than the address');
});

test('a client with every event of a finished run gets 204', async ({ http }) => {
  await ask(`${http.url}/v1/runs`, { method: 'POST', headers: BEARER, body: { prompt: 'a' } });
  const { seq } = http.runtime.append('run_1', 'run.completed');
  const { status, text } = await ask(`${http.url}/v1/runs/run_1/events`, {
    headers: { ...BEARER, 'last-event-id': String(seq) },
  });
  assert.is(status, 204);
  assert.is(text, '');
});

test('opening a stream reads its run, and not the status of the daemon', async ({ http }) => {
  const { id } = await http.runtime.runs.start({ prompt: 'hello' }, 'test');
  http.runtime.append(id, 'run.completed');
  const { seq } = await http.runtime.runs.head(id);
  for (const from of [0, seq, seq + 1]) {
    await ask(`${http.url}/v1/runs/${id}/events?from=${from}`, { headers: BEARER });
    assert.not.ok(
      http.runtime.calls.includes('status'),
      `from ${from}: ${http.runtime.calls.join(', ')}`,
    );
  }
});

test('a position after the end is refused, and the next position waits for events', async ({
  http,
}) => {
  await ask(`${http.url}/v1/runs`, { method: 'POST', headers: BEARER, body: { prompt: 'a' } });
  const { seq } = http.runtime.append('run_1', 'run.output_appended', { text: 'x' });
  const events = `${http.url}/v1/runs/run_1/events`;
  const next = await open(events, { headers: { 'last-event-id': String(seq) } });
  for (const id of [seq + 1, 999_999]) {
    const beyond = await ask(events, { headers: { ...BEARER, 'last-event-id': String(id) } });
    assert.equal([beyond.status, beyond.json?.error.param], [400, 'Last-Event-ID'], String(id));
  }
  const from = await ask(`${events}?from=${seq + 2}`, { headers: BEARER });
  assert.equal([from.status, from.json?.error.param], [400, 'from']);
  http.runtime.append('run_1', 'run.completed');
  await next.ended;
  assert.equal(
    next.events().map(({ event }) => event),
    ['run.completed'],
  );
  assert.is((await ask(events, { headers: { ...BEARER, 'last-event-id': '999999' } })).status, 400);
});

test('a wrong position or an unknown run is an error before the stream begins', async ({
  http,
}) => {
  await ask(`${http.url}/v1/runs`, { method: 'POST', headers: BEARER, body: { prompt: 'a' } });
  for (const id of ['x', '-1', '1.5', '99999999999999999999', '1, 2'])
    assert.is(
      (
        await ask(`${http.url}/v1/runs/run_1/events`, {
          headers: { ...BEARER, 'last-event-id': id },
        })
      ).json.error.param,
      'Last-Event-ID',
    );
  for (const from of ['x', '-1', '', '1.5'])
    assert.is(
      (await ask(`${http.url}/v1/runs/run_1/events?from=${from}`, { headers: BEARER })).json.error
        .param,
      'from',
    );
  assert.is(
    (await ask(`${http.url}/v1/runs/run_9/events`, { headers: BEARER })).json.error.code,
    'run_unknown',
  );
});

test('a client that leaves ends its follower, and its run continues', async ({ http }) => {
  const stream = await start(http);
  await waitFor('the stream', () => http.runtime.following === 1);
  stream.leave();
  await waitFor('the follower to end', () => http.runtime.following === 0);
  assert.not.ok(http.runtime.calls.includes('runs.cancel'));
});

test('a client that leaves before its run is accepted gets no follower', async ({ http }) => {
  const { start } = http.runtime.runs;
  const [asked, accepted] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  http.runtime.runs.start = async (input, client) => {
    asked.resolve();
    await accepted.promise;
    return start(input, client);
  };
  const body = '{"prompt":"a"}';
  const line = wire(
    http.port,
    `POST /v1/runs HTTP/1.1\r\nHost: ${http.host}\r\nAuthorization: Bearer ${TOKEN}\r\nAccept: text/event-stream\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
  const gone = new Promise((resolve) =>
    http.server.once('connection', (socket) => socket.once('close', resolve)),
  );
  await asked.promise;
  line.socket.destroy();
  await gone;
  accepted.resolve();
  await waitFor('the run', () => http.runtime.inputs.length === 1);
  await ask(`${http.url}/livez`);
  assert.is(http.runtime.following, 0);
});

test('a client that does not read gets no more than the buffers take, and is closed', async (context) => {
  const http = await beatsOften(context);
  await ask(`${http.url}/v1/runs`, { method: 'POST', headers: BEARER, body: { prompt: 'a' } });
  const text = 'x'.repeat(64 * 1024);
  for (let index = 0; index < 400; index += 1)
    http.runtime.append('run_1', 'run.output_appended', { text });
  const line = wire(http.port);
  line.socket.pause();
  line.socket.write(
    `GET /v1/runs/run_1/events HTTP/1.1\r\nHost: ${http.host}\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n`,
  );
  await waitFor('the stream', () => http.runtime.following === 1);
  await waitFor('the run to lose its follower', () => http.runtime.following === 0);
  assert.ok(http.runtime.given < 300, `${http.runtime.given} events were read ahead of the client`);
  line.socket.resume();
  await line.ended;
});

test('a slow client gets everything', async ({ http }) => {
  await ask(`${http.url}/v1/runs`, { method: 'POST', headers: BEARER, body: { prompt: 'a' } });
  for (let index = 0; index < 100; index += 1)
    http.runtime.append('run_1', 'run.output_appended', { text: 'x'.repeat(50_000), index });
  http.runtime.append('run_1', 'run.completed');
  const stream = await open(`${http.url}/v1/runs/run_1/events`);
  stream.res.on('data', () => {
    stream.res.pause();
    setTimeout(() => stream.res.resume(), 1);
  });
  await stream.ended;
  assert.is(stream.events().length, 102);
  assert.is(stream.events().at(-1)?.event, 'run.completed');
});

test('a stream of a daemon that stops ends with the reason, and without an id', async ({
  http,
}) => {
  const stream = await start(http);
  await waitFor('the first event', () => stream.events().length === 1);
  await http.close();
  await stream.ended;
  const last = stream.events().at(-1);
  assert.is(last?.event, 'stream.closed');
  assert.is(last?.id, null);
  assert.is(errorCode(last), 'daemon_stopping');
  assert.ok(stream.res.complete, 'it ended as a stream should');
});

test('a stream that fails ends with an error of svc', async ({ http }) => {
  await ask(`${http.url}/v1/runs`, { method: 'POST', headers: BEARER, body: { prompt: 'a' } });
  http.runtime.fail('runs.follow', new Error('secret'));
  const stream = await open(`${http.url}/v1/runs/run_1/events`);
  await stream.ended;
  assert.is(errorCode(stream.events()[0]), 'internal');
  assert.not.match(stream.text(), 'secret');
});

test.run();
