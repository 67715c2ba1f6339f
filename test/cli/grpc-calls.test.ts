import {
  constants,
  createServer,
  type Http2Server,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { GrpcCalls } from '../../src/cli/upkeep/health/grpc-calls.ts';
import { failure } from '../helpers/failure.ts';

const test = suite<{ ends: (() => void)[] }>('calls of gRPC without the library');

test.before.each((context) => {
  context.ends = [];
});
test.after.each(({ ends }) => {
  for (const end of ends.reverse()) end();
});

type Answer = (stream: ServerHttp2Stream, request: Buffer, path: string) => void;
type Context = { ends: (() => void)[] };

/** A server of HTTP/2 that answers each call so, and a client of it. */
async function served(
  { ends }: Context,
  answer: Answer,
): Promise<{ calls: GrpcCalls; sessions: ServerHttp2Session[]; server: Http2Server }> {
  const server = createServer();
  const sessions: ServerHttp2Session[] = [];
  server.on('session', (session) => sessions.push(session));
  server.on('stream', (stream, headers) => {
    stream.on('error', () => {});
    stream.once('data', (request: Buffer) => answer(stream, request, String(headers[':path'])));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const calls = new GrpcCalls(`127.0.0.1:${(server.address() as AddressInfo).port}`);
  ends.push(
    () => server.close(),
    () => {
      for (const session of sessions) session.destroy();
    },
    () => calls.close(),
  );
  return { calls, sessions, server };
}

function framed(text: string): Buffer {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(text.length, 1);
  return Buffer.concat([prefix, Buffer.from(text)]);
}

function begin(stream: ServerHttp2Stream, status = '0'): void {
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
  stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': status }));
}

async function all(messages: AsyncIterable<Buffer>): Promise<string[]> {
  const texts: string[] = [];
  for await (const message of messages) texts.push(message.toString());
  return texts;
}

test('a call sends its message, and has the messages of the answer in their order', async (context) => {
  const { calls } = await served(context, (stream, request, path) => {
    begin(stream);
    stream.write(framed(`${path} ${request.subarray(5)}`));
    // A message in two pieces, and two in one.
    stream.write(framed('second').subarray(0, 7));
    setImmediate(() => {
      stream.write(framed('second').subarray(7));
      stream.end(Buffer.concat([framed(''), framed('last')]));
    });
  });
  const both = [calls.call('/a.B/C', Buffer.from('x')), calls.call('/a.B/D', Buffer.from('y'))];
  assert.equal(await Promise.all(both.map(all)), [
    ['/a.B/C x', 'second', '', 'last'],
    ['/a.B/D y', 'second', '', 'last'],
  ]);
});

test('an answer of any length arrives: the window grows by what was read', async (context) => {
  const count = 20_000;
  const { calls } = await served(context, (stream) => {
    begin(stream);
    for (let index = 0; index < count; index += 1) stream.write(framed(String(index)));
    stream.end();
  });
  const texts = await all(calls.call('/a.B/C', Buffer.from('x')));
  assert.equal([texts.length, texts.at(-1)], [count, String(count - 1)]);
});

test('a ping is answered', async (context) => {
  const { calls, sessions } = await served(context, (stream) => {
    begin(stream);
    const [session] = sessions;
    session?.ping(Buffer.from('12345678'), (error, _, payload) => {
      stream.end(framed(error === null ? payload.toString() : 'no answer'));
    });
  });
  assert.equal(await all(calls.call('/a.B/C', Buffer.from('x'))), ['12345678']);
});

for (const [what, answer, message] of [
  [
    'a status that is no success',
    (stream: ServerHttp2Stream) => {
      begin(stream, '14');
      stream.end();
    },
    'The health service answers with status 14.',
  ],
  [
    'a status without an answer',
    (stream: ServerHttp2Stream) =>
      stream.respond({ ':status': 200, 'grpc-status': '5' }, { endStream: true }),
    'The health service answers with status 5.',
  ],
  [
    'an end without a status',
    (stream: ServerHttp2Stream) => stream.respond({ ':status': 404 }, { endStream: true }),
    'The health service answers with status 2.',
  ],
  [
    'a reset',
    (stream: ServerHttp2Stream) => stream.close(constants.NGHTTP2_REFUSED_STREAM),
    'The health service ends the call with error 7 of HTTP/2.',
  ],
  [
    'the end of the connection',
    (stream: ServerHttp2Stream) => stream.session?.goaway(constants.NGHTTP2_ENHANCE_YOUR_CALM),
    'The health service ends the connection with error 11 of HTTP/2.',
  ],
] as const)
  test(`the client says it: ${what}`, async (context) => {
    const { calls } = await served(context, answer);
    const error = await failure(all(calls.call('/a.B/C', Buffer.from('x'))));
    assert.equal([error.code, error.message], ['daemon_not_running', message]);
  });

test('a message longer than any of the service is refused', async (context) => {
  const { calls } = await served(context, (stream) => {
    begin(stream);
    stream.write(framed('x'.repeat(1_020)));
  });
  const error = await failure(all(calls.call('/a.B/C', Buffer.from('x'))));
  assert.is(error.message, 'The program at this address does not speak gRPC.');
});

test('the client names another protocol, and an address without a listener', async ({ ends }) => {
  const server = createTcpServer((socket) => {
    ends.push(() => socket.destroy());
    socket.on('error', () => {}).once('data', () => socket.write('HTTP/1.1 400 Bad Request\r\n'));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const other = new GrpcCalls(address);
  ends.push(() => other.close());
  const error = await failure(all(other.call('/a.B/C', Buffer.from('x'))));
  assert.is(error.message, 'The program at this address does not speak gRPC.');
  for (const end of ends.splice(0)) end();
  await new Promise<void>((resolve) => server.close(() => resolve()));
  const nobody = new GrpcCalls(address);
  ends.push(() => nobody.close());
  const refused = await failure(all(nobody.call('/a.B/C', Buffer.from('x'))));
  assert.is(refused.message, `Nothing answers at ${address} (ECONNREFUSED).`);
});

test.run();
