import { extname } from 'node:path';
import { SHARE_ENV, Worker } from 'node:worker_threads';
import { OUT_OF_TIME } from '../async/foreign-child.ts';
import { StopFlags } from './native/stop-flags.ts';
import type { FromEngine } from './protocol/from-engine.ts';
import type { FromWorker, ToEngine } from './protocol/messages.ts';
import { RenderWatch } from './render-watch.ts';

/**
 * The engine process. A worker thread computes, and is blocked while it does. This thread passes
 * messages on, and ends a batch whose run is cancelled. The process exits on request and when the
 * daemon is gone. The daemon handles the signals that a terminal sends to the group.
 */
const stops = new StopFlags();
const entry = new URL(`./worker${extname(import.meta.url)}`, import.meta.url);
const worker = new Worker(entry, { workerData: stops.memory, env: SHARE_ENV, resourceLimits: {} });
let stopping = false;
let lastSent = Promise.resolve();

const watch = new RenderWatch((id, error) => {
  send(id === null ? { type: 'load_failed', error } : { type: 'failed', id, error });
  // An exit would wait for the thread that renders.
  void lastSent.then(() => process.kill(process.pid, OUT_OF_TIME));
});

worker.on('message', (message: FromWorker) => {
  if (message.type === 'closed') void lastSent.then(() => process.exit(0));
  else if (message.type === 'rendering') watch.begin(message);
  else if (message.type === 'rendered') watch.end();
  // Answers that a stop cuts off are not failures: the daemon knows why they end.
  else if (!stopping || message.type === 'prompt_file') send(message);
});
worker.on('error', (error) => {
  console.error('the thread of the engine died:', error);
  process.exit(1);
});

// Only the daemon that started it has the channel.
process.on('message', (order: ToEngine) => {
  stopping ||= order.type === 'stop';
  worker.postMessage(order);
  if (order.type === 'stop_run') stops.raise(order.id);
  else if (order.type === 'stop') stops.raiseAll();
});
// An exit would wait for the batch.
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
// Without a listener, Node opens a debugger at SIGUSR1.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR1'] as const)
  process.on(signal, () => {});
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
send({ type: 'started' });

/** An exit loses messages that are not delivered yet. */
function send(message: FromEngine): void {
  if (!process.connected) return;
  lastSent = new Promise((done) => {
    process.send?.(message, undefined, {}, () => done());
  });
}
