import { type IncomingMessage, request, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { sendAnswer, streamAnswer } from '../../src/dialects/answer.ts';
import { runIdOf, toApiId } from '../../src/dialects/ids.ts';
import { startFor } from '../../src/dialects/start.ts';
import { SvcError } from '../../src/errors.ts';
import type { Context, Route } from '../../src/transport/http/route.ts';
import { finish, gate, output, untilAborted } from '../helpers/scripted-provider.ts';
import { waitFor } from '../helpers/wait.ts';
import { ask, BEARER } from '../transport/http/boot.ts';
import { bootReal, type Real } from '../transport/http/real.ts';

/** A made-up API shows what all third-party APIs share. */
const test = suite<{ real: Real }>('a third-party API');

const envelope = (error: SvcError) => ({ sad: error.code, because: error.message });
async function answer(context: Context): Promise<void> {
  const prompt = new URL(context.req.originalUrl, 'http://x').searchParams.get('prompt') ?? '';
  const run = await startFor(context, { prompt }, { api: 'toy', fields: { n: 1 } });
  if (context.req.headers.accept !== 'application/x-ndjson')
    return sendAnswer(context, run, ({ text, usage }) => ({ text, usage }));
  await streamAnswer(
    context,
    run,
    {
      type: 'application/x-ndjson',
      heartbeat: '\n',
      failure: (error) => `${JSON.stringify(envelope(error))}\n`,
    },
    async (pieces, { write }) => {
      for await (const piece of pieces) await write(`${JSON.stringify(piece)}\n`);
    },
  );
}
const routes: readonly Route[] = [
  {
    method: 'POST',
    path: '/toy',
    access: 'token',
    summary: '',
    answers: {},
    errors: envelope,
    answer,
  },
];

test.before.each(async (context) => {
  context.real = await bootReal({ routes, script: [output('a', 1), output('b', 2), finish()] });
});
test.after.each(({ real }) => real.close());

const post = (real: Real, headers: Record<string, string> = {}, query = '?prompt=hi') =>
  real.get(`/toy${query}`, { method: 'POST', headers });
const NDJSON = { accept: 'application/x-ndjson' };
const lines = (text: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));

test('a whole answer, and the id of its run', async ({ real }) => {
  const { status, json, headers } = await post(real, { 'x-svc-client': 'me' });
  assert.equal([status, json.text, json.usage.output_tokens], [200, 'ab', 1]);
  const run = await real.runtime.runs.get(String(headers['x-svc-run-id']));
  assert.equal([run.prompt, run.client, run.asked_as], ['hi', 'me', 'toy']);
});

test('a streamed answer has its pieces and its end', async ({ real }) => {
  const { text, headers } = await post(real, NDJSON);
  const pieces = lines(text);
  assert.is(pieces.map((piece) => piece.text ?? '').join(''), 'ab');
  assert.equal([pieces.at(-1).type, pieces.at(-1).finish_reason], ['end', 'stop']);
  assert.match(String(headers['x-svc-run-id']), /^run_/);
});

test('pieces that are there at one time are one write, together with the end', async ({ real }) => {
  const words = Array.from({ length: 20 }, (_, index) => output(`${index} `, 1));
  const thinks = words.map((word) => ({ ...word, kind: 'reasoning' as const }));
  // Pieces of one kind in a row would be one output.
  real.provider.script = [...words.flatMap((word, at) => [word, thinks[at] ?? word]), finish()];
  const key = { ...NDJSON, 'idempotency-key': 'twice' };
  const first = await post(real, key);
  const parts = partsWritten(real);
  let writes = 0;
  const { write } = ServerResponse.prototype;
  ServerResponse.prototype.write = function (this: ServerResponse, ...args: unknown[]) {
    writes += 1;
    return Reflect.apply(write, this, args);
  };
  const again = await post(real, key);
  ServerResponse.prototype.write = write;
  assert.ok(lines(again.text).length > 20, `${lines(again.text).length} pieces`);
  assert.is(again.text, first.text);
  assert.is(writes, 0, 'all of it goes with the end');
  assert.equal(
    parts.map(({ length }) => length > 0),
    [true],
    'the head and the text are one part',
  );
  assert.is(again.headers['content-length'], String(Buffer.byteLength(again.text)));
  assert.is(again.headers['transfer-encoding'], undefined);
});

test('an answer whose pieces come one by one has no length, nor has one with a trailer', async ({
  real,
}) => {
  const door = gate();
  real.provider.script = [output('a', 1), () => door.opened, output('b', 2), finish()];
  const parts = partsWritten(real);
  const asked = post(real, NDJSON);
  await waitFor('the first piece is written', () => parts.length > 0);
  door.open();
  const { headers } = await asked;
  assert.equal([headers['content-length'], headers['transfer-encoding']], [undefined, 'chunked']);
  real.provider.script = [output('ab', 1), finish()];
  const trailed = await post(real, { ...NDJSON, te: 'trailers' });
  assert.equal(
    [trailed.headers['content-length'], trailed.headers.trailer],
    [undefined, 'X-Svc-End'],
  );
});

/** What the sockets of later connections hand to the system, without what is empty. */
function partsWritten(real: Real): { length: number }[] {
  const parts: { length: number }[] = [];
  real.server.on('connection', (socket: Socket) => {
    const { _write, _writev } = socket;
    socket._write = (chunk, ...rest) => {
      parts.push(chunk);
      _write.call(socket, chunk, ...rest);
    };
    socket._writev = (chunks, done) => {
      parts.push(...chunks.map(({ chunk }) => chunk).filter(({ length }) => length > 0));
      _writev?.call(socket, chunks, done);
    };
  });
  return parts;
}

test('each error has the form of the API', async ({ real }) => {
  const empty = await post(real, {}, '?prompt=');
  assert.equal([empty.status, empty.json.sad], [400, 'prompt_missing']);
  const refused = await ask(`${real.url}/toy?prompt=hi`, { method: 'POST' });
  assert.equal([refused.status, refused.json.sad], [401, 'unauthorised']);
  const wish = await post(real, { 'x-svc-on-disconnect': 'maybe' });
  assert.equal([wish.status, wish.json.sad], [400, 'invalid_request']);
});

test('a run that fails before its first piece is an HTTP error', async ({ real }) => {
  real.provider.script = [new SvcError('model_unknown', 'No such model.')];
  for (const headers of [{}, NDJSON]) {
    const { status, json } = await post(real, headers);
    assert.equal([status, json], [404, { sad: 'model_unknown', because: 'No such model.' }]);
  }
});

test('a run that fails later ends the stream with an error', async ({ real }) => {
  const failure = new SvcError('model_unknown', 'It is gone.', { retryable: false });
  real.provider.script = [output('a', 1), failure];
  const { status, text } = await post(real, NDJSON);
  assert.is(status, 200);
  assert.equal(lines(text).at(-1), { sad: 'model_unknown', because: 'It is gone.' });
});

/** Starts a request, leaves after its first piece, and returns the id of its run. */
async function leave(real: Real, headers: Record<string, string>): Promise<string> {
  const sent = request(`${real.url}/toy?prompt=hi`, {
    method: 'POST',
    headers: { ...BEARER, ...NDJSON, ...headers },
    agent: false,
  });
  sent.on('error', () => {});
  sent.end();
  const id = await new Promise<string>((resolve) =>
    sent.once('response', (res) => {
      res.on('error', () => {});
      res.once('data', () => resolve(String(res.headers['x-svc-run-id'])));
    }),
  );
  sent.destroy();
  return id;
}

test('a client that waits gets heartbeats, and a late failure as the last part', async () => {
  const { opened, open } = gate();
  const failure = new SvcError('model_unknown', 'It is gone.', { retryable: false });
  const script = [() => opened, failure];
  const real = await bootReal({ routes, script, limits: { heartbeat_ms: 20 } });
  const sent = request(`${real.url}/toy?prompt=hi`, {
    method: 'POST',
    headers: { ...BEARER, ...NDJSON },
    agent: false,
  });
  sent.end();
  const text = await new Promise<string>((resolve) =>
    sent.once('response', (res) => {
      let text = '';
      res.setEncoding('utf8');
      res.on('data', (part) => {
        if (text === '') open();
        text += part;
      });
      res.once('end', () => resolve(text));
    }),
  );
  assert.match(text, /^\n/);
  assert.equal(lines(text), [{ sad: 'model_unknown', because: 'It is gone.' }]);
  await real.close();
});

test('what a client does not read is counted, and not made ahead', async ({ real }) => {
  const piece = 'x'.repeat(100_000);
  real.provider.script = [...Array.from({ length: 100 }, () => output(piece, 1)), finish()];
  const sent = request(`${real.url}/toy?prompt=hi`, {
    method: 'POST',
    headers: { ...BEARER, ...NDJSON },
    agent: false,
  });
  sent.end();
  const res = await new Promise<IncomingMessage>((resolve) => sent.once('response', resolve));
  const run = String(res.headers['x-svc-run-id']);
  const ended = async () => (await real.runtime.runs.get(run)).ended_at !== null;
  await waitFor('the run has ended', ended);
  assert.ok(real.unsent.bytes > 0, 'some is unsent');
  let bytes = 0;
  for await (const part of res) bytes += part.length;
  assert.ok(bytes > 100 * piece.length, `${bytes} bytes`);
  await waitFor('nothing is counted', () => real.unsent.bytes === 0);
});

test('the text of a whole answer counts while it is made', async ({ real }) => {
  const { opened, open } = gate();
  real.provider.script = [output('x'.repeat(50_000), 1), () => opened, finish()];
  const waiting = post(real);
  await waitFor('it counts', () => real.unsent.bytes >= 50_000);
  open();
  assert.is((await waiting).json.text.length, 50_000);
  await waitFor('nothing is counted', () => real.unsent.bytes === 0);
});

test('the run of a client that left is cancelled', async ({ real }) => {
  real.provider.script = (_, signal) => [output('a', 1), untilAborted(signal)];
  const id = await leave(real, {});
  const state = async () => (await real.runtime.runs.get(id)).state;
  await waitFor('it is cancelled', async () => (await state()) === 'cancelled');
});

test('it continues if the client asked so, or can ask for it again', async ({ real }) => {
  for (const headers of [{ 'x-svc-on-disconnect': 'continue' }, { 'idempotency-key': 'k' }]) {
    const { opened, open } = gate();
    real.provider.script = [output('a', 1), () => opened, output('b', 2), finish()];
    const id = await leave(real, headers);
    await waitFor('the connection is closed', () => real.unsent.bytes === 0);
    open();
    await waitFor('it ends', async () => (await real.runtime.runs.get(id)).ended_at !== null);
    assert.is((await real.runtime.runs.get(id)).output, 'ab');
  }
  const again = await post(real, { 'idempotency-key': 'k' });
  assert.is(again.json.text, 'ab');
});

test('a listener that closes cancels no run', async ({ real }) => {
  const { opened, open } = gate();
  real.provider.script = [output('a', 1), () => opened, output('b', 2), finish()];
  const waiting = post(real);
  await waitFor('it runs', () => real.provider.open === 1);
  const [asked] = real.provider.asked;
  const closed = real.http.close();
  const { status, json } = await waiting;
  assert.equal([status, json.sad], [503, 'daemon_stopping']);
  await closed;
  open();
  const id = asked?.run_id ?? '';
  await waitFor('it ends', async () => (await real.runtime.runs.get(id)).ended_at !== null);
  assert.is((await real.runtime.runs.get(id)).state, 'completed');
});

test('ids of an API name the run', () => {
  const run = 'run_01JD9T8Q0G8W5N2C3B4A5Z6Y7X';
  assert.is(toApiId('chatcmpl-', run), 'chatcmpl-01JD9T8Q0G8W5N2C3B4A5Z6Y7X');
  assert.is(runIdOf('chatcmpl-', toApiId('chatcmpl-', run)), run);
  for (const id of ['resp_1', 'chatcmpl-', 'chatcmpl-../x', run])
    assert.throws(() => runIdOf('chatcmpl-', id), /There is no run/);
});

test.run();
