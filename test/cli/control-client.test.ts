import { chmodSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { connectDaemon } from '../../src/cli/terminal/connect/connect-daemon.ts';
import { parseRunInput } from '../../src/contract/inputs.ts';
import { SvcError } from '../../src/errors.ts';
import { writeRuntimeFile } from '../../src/home/runtime-file.ts';
import { defaultLimits } from '../../src/limits.ts';
import { type ControlClient, connect } from '../../src/transport/control/client.ts';
import { createMethods } from '../../src/transport/control/methods.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import {
  type FakeDaemon,
  health,
  output,
  run,
  runtimeFile,
  startFakeDaemon,
} from './fake-daemon.ts';

const test = suite<{ home: Home; daemon: FakeDaemon; client: ControlClient }>(
  'a connection to the local socket',
);

test.before.each(async (context) => {
  context.home = makeHome();
  context.daemon = await startFakeDaemon(context.home);
  context.client = await connect(context.home.paths.socket);
});
test.after.each(async ({ home, daemon, client }) => {
  client.close();
  await daemon.close();
  await home.close();
});

async function failure(promise: Promise<unknown>): Promise<SvcError> {
  try {
    await promise;
  } catch (error) {
    assert.instance(error, SvcError);
    return error as SvcError;
  }
  return assert.unreachable('it did not fail') as never;
}

test('a daemon that does not know a field or a method, or has another number, is of another version', async ({
  home,
  daemon,
}) => {
  const client = await connectDaemon(home.paths);
  const refused = async (message: string, param: string, details = {}) => {
    daemon.on('run.start', ({ error }) =>
      error({ code: 'invalid_request', message, param, hint: 'Correct it.', details }),
    );
    const { code, message: said, hint } = await failure(client.call('run.start', {}));
    assert.is(code, 'invalid_request');
    return [said, hint];
  };
  const it = 'The daemon is of another version: it has not ';
  const restart = 'To run the daemon of this version: svc restart';
  const field = await refused('"origin" is not a field here.', 'origin', { unknown: 'field' });
  assert.equal(field, [`${it}the field origin.`, restart]);
  const method = await refused('There is no method.', 'method', { unknown: 'method' });
  assert.equal(method, [`${it}this command.`, restart]);
  const same = await refused('words must have words.', 'words');
  assert.equal(same, ['words must have words.', 'Correct it.']);
  await writeRuntimeFile(home.paths.runtime, { ...runtimeFile, version: '0.0.1' });
  const older = await refused('"origin" is not a field here.', 'origin');
  assert.is(older[0], '"origin" is not a field here.');
  assert.match(older[1] ?? '', /^The daemon is of version 0\.0\.1, this program of .*svc restart$/);
  client.close();
});

test('the daemon marks what it does not know, at any depth', async () => {
  const unknown = async (work: () => unknown) => {
    try {
      await work();
    } catch (error) {
      return [(error as SvcError).param, (error as SvcError).details];
    }
    return null;
  };
  const method = () => createMethods({} as never)('nope', {}, {} as never);
  const start = (input: object) => () => parseRunInput(input, defaultLimits);
  assert.equal(await unknown(method), ['method', { unknown: 'method' }]);
  assert.equal(await unknown(start({ prompt: 'x', y: 1 })), ['y', { unknown: 'field' }]);
  assert.equal(await unknown(start({ prompt: 1 })), ['prompt', undefined]);
});

test('no listener is daemon_not_running, a socket of another user is unauthorised', async ({
  home,
  daemon,
  client,
}) => {
  client.close();
  await daemon.close();
  assert.is((await failure(connect(home.paths.socket))).code, 'daemon_not_running');
  assert.is((await failure(connect(`${home.folder}/none.sock`))).code, 'daemon_not_running');
  if (process.getuid?.() === 0) return;
  chmodSync(home.folder, 0o000);
  assert.is((await failure(connect(home.paths.socket))).code, 'unauthorised');
  chmodSync(home.folder, 0o700);
});

test('answers find their requests, in whatever order and pieces they come', async ({
  daemon,
  client,
}) => {
  const late: (() => void)[] = [];
  daemon.on('run.get', ({ params, result }) => {
    late.unshift(() => result({ ...run, id: params.id }));
    if (late.length === 3) for (const answer of late) answer();
  });
  const runs = await Promise.all(['a', 'b', 'c'].map((id) => client.call('run.get', { id })));
  assert.equal(
    runs.map(({ id }) => id),
    ['a', 'b', 'c'],
  );
  const text = JSON.stringify({ id: 4, result: { ...run, output: 'käse 🧀' } });
  daemon.on('run.get', ({ raw }) => {
    for (const letter of `${text}\n`) raw(letter);
  });
  assert.is((await client.call('run.get', {})).output, 'käse 🧀');
});

test('an error of the daemon comes back as itself, one that is not known as internal', async ({
  daemon,
  client,
}) => {
  const sent = new SvcError('provider_unknown', 'No such.', {
    param: 'provider',
    hint: 'Look.',
    details: { known: ['a'] },
  });
  daemon.on('run.get', ({ error }) => error(sent.body()));
  assert.equal((await failure(client.call('run.get'))).body(), sent.body());
  daemon.on('run.get', ({ error }) => error({ code: 'from_the_future', message: 'Later.' }));
  const unknown = await failure(client.call('run.get'));
  assert.equal([unknown.code, unknown.message], ['internal', 'Later.']);
});

test('a stream gives its events, then its result', async ({ daemon, client }) => {
  daemon.on('run.start', ({ event, result }) => {
    event({ run });
    for (let seq = 2; seq < 5000; seq += 1) event(output(String(seq), seq));
    result({ ...run, state: 'completed' });
  });
  const stream = client.stream('run.start');
  let text = '';
  for await (const event of stream) if ('data' in event) text += event.data.text;
  assert.is(text, Array.from({ length: 4998 }, (_, index) => index + 2).join(''));
  assert.is((await stream.result).state, 'completed');
});

test('unread events stop the reading, and none is lost', async ({ daemon, client }) => {
  const piece = 'x'.repeat(1024);
  let sent = 0;
  let full = false;
  daemon.on('run.start', ({ event, result }) => {
    const [socket] = daemon.connections;
    const speak = () => {
      while (sent < 20_000 && !full) {
        sent += 1;
        event(output(piece, sent));
        full = socket?.writableNeedDrain === true;
      }
      if (sent === 20_000) result(run);
    };
    socket?.on('drain', () => {
      full = false;
      speak();
    });
    speak();
  });
  const stream = client.stream('run.start');
  await waitFor('the daemon has to wait', () => full && sent > 0);
  const before = sent;
  assert.ok(before < 20_000);
  let taken = 0;
  for await (const _ of stream) taken += 1;
  assert.is(taken, 20_000);
  await stream.result;
});

test('a call ends by its time, by its signal, and by the end of the connection', async ({
  daemon,
  client,
}) => {
  daemon.on('run.get', () => {});
  assert.is((await failure(client.call('run.get', {}, { timeout_ms: 20 }))).code, 'timed_out');
  const abort = new AbortController();
  const given_up = failure(client.call('run.get', {}, { signal: abort.signal }));
  abort.abort();
  assert.is((await given_up).code, 'timed_out');
  assert.is(
    (await failure(client.call('run.get', {}, { signal: AbortSignal.abort() }))).code,
    'timed_out',
  );
  const open = failure(client.call('run.get'));
  await waitFor('it was asked', () => daemon.asked.length >= 3);
  for (const connection of daemon.connections) connection.destroy();
  assert.is((await open).code, 'connection_lost');
  await client.closed;
  assert.is((await failure(client.call('health'))).code, 'connection_lost');
});

test('a late answer of an abandoned call is ignored', async ({ daemon, client }) => {
  let answer = () => {};
  daemon.on('run.get', ({ result }) => {
    answer = () => result(run);
  });
  await failure(client.call('run.get', {}, { timeout_ms: 20 }));
  answer();
  assert.ok((await client.call('health')).ready);
});

test('lines that are no answers, and lines without an end, end the connection', async ({
  home,
  daemon,
}) => {
  for (const garbage of [
    'hello\n',
    '{}\n',
    '[1]\n',
    '{"id":1,"error":"no"}\n',
    '{"id":1,"error":null}\n',
    `${'x'.repeat(70_000)}`,
  ]) {
    const client = await connect(home.paths.socket, { answer_bytes_max: 65_536 });
    daemon.on('run.get', ({ raw }) => raw(garbage));
    assert.is(
      (await failure(client.call('run.get'))).code,
      'connection_lost',
      garbage.slice(0, 20),
    );
    await client.closed;
  }
});

test("an error that is no request's ends everything on the connection", async ({
  daemon,
  client,
}) => {
  daemon.on('run.get', ({ raw }) =>
    raw(
      `${JSON.stringify({ id: 0, error: new SvcError('invalid_request', 'A line is too long.').body() })}\n`,
    ),
  );
  assert.is((await failure(client.call('run.get'))).message, 'A line is too long.');
  await client.closed;
});

test('an answer is read whole, however long it is', async ({ daemon, client }) => {
  const long = 'x'.repeat(20 * 1024 * 1024);
  daemon.on('run.get', ({ result }) => result({ ...run, output: long }));
  assert.is((await client.call('run.get')).output.length, long.length);
});

test('a stream that is left early does not hold up the connection', async ({ daemon, client }) => {
  daemon.on('health.watch', ({ event }) => {
    for (let count = 0; count < 3000; count += 1) event(health);
  });
  for await (const _ of client.stream('health.watch')) break;
  assert.ok((await client.call('health')).ready);
});

test('a request leaves nothing behind: answered, refused, expired or given up', async ({
  daemon,
  client,
}) => {
  const open = () => (Reflect.get(client, 'open') as ReadonlyMap<number, unknown>).size;
  daemon.on('health', ({ result }) => result(health));
  await client.call('health');
  assert.is(open(), 0, 'answered');
  daemon.on('health', ({ error }) => error({ code: 'not_ready', message: 'Not yet.' }));
  await failure(client.call('health'));
  assert.is(open(), 0, 'refused');
  daemon.on('run.get', () => {});
  await failure(client.call('run.get', {}, { timeout_ms: 20 }));
  assert.is(open(), 0, 'expired');
  const stop = new AbortController();
  const given = client.call('run.get', {}, { signal: stop.signal });
  assert.is(open(), 1);
  stop.abort();
  await failure(given);
  assert.is(open(), 0, 'given up');
});

test.run();
