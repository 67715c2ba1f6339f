import { connect, createServer, type Socket } from 'node:net';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { callAfter, timeoutSignal } from '../../src/async/timers.ts';
import { waitFor } from '../helpers/wait.ts';

/** The process does nothing for so long, as when it is stopped. */
function freeze(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/** Two ends of one connection in this process. */
async function connected(): Promise<{ near: Socket; far: Socket; close(): void }> {
  const server = createServer();
  await new Promise<void>((listens) => server.listen(0, '127.0.0.1', listens));
  const accepted = new Promise<Socket>((take) => server.once('connection', take));
  const near = connect((server.address() as { port: number }).port, '127.0.0.1');
  const far = await accepted;
  const close = () => {
    near.destroy();
    far.destroy();
    server.close();
  };
  return { near, far, close };
}

test('what lies in a socket is read before a timer that was frozen counts', async () => {
  const { near, far, close } = await connected();
  const seen: string[] = [];
  near.on('data', (bytes) => seen.push(String(bytes)));
  callAfter(100, () => seen.push('late'));
  const signal = timeoutSignal(100);
  signal.addEventListener('abort', () => seen.push('aborted'));
  far.write('the answer');
  freeze(1000);
  await waitFor('all of it', () => seen.length === 3);
  assert.is(seen[0], 'the answer');
  assert.equal(seen.slice(1).sort(), ['aborted', 'late']);
  assert.is(signal.reason.name, 'TimeoutError');
  close();
});

test('a timer that is cancelled while the sockets are read does not call', async () => {
  const { near, far, close } = await connected();
  const seen: string[] = [];
  const cancel = callAfter(100, () => seen.push('late'));
  near.on('data', () => {
    cancel();
    callAfter(300, () => seen.push('afterwards'));
  });
  far.write('the answer');
  freeze(1000);
  await waitFor('the later one', () => seen.length > 0);
  assert.equal(seen, ['afterwards']);
  close();
});

test('a signal without a listener keeps no process, and aborts in its time', async () => {
  const signal = timeoutSignal(5);
  await waitFor('it aborts', () => signal.aborted);
});

test.run();
