import { fdatasyncSync, openSync, writeSync } from 'node:fs';
import { Agent, createServer, type IncomingMessage, request } from 'node:http';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

/**
 * The floors of the gateway: `bare-proxy.ts PORT UPSTREAM [FILE]`. It forwards each request.
 *
 * With a file, a thread writes and syncs it before the request goes, and again before the answer
 * goes. A log on disk needs that much. Requests that wait together share a write.
 */

const PAGE = Buffer.alloc(4096);

if (isMainThread) serve();
else {
  const file = openSync(workerData as string, 'w');
  parentPort?.on('message', () => {
    writeSync(file, PAGE);
    fdatasyncSync(file);
    parentPort?.postMessage(null);
  });
}

function serve(): void {
  const [port, upstream = '', file] = process.argv.slice(2);
  // The upstream closes a connection that idles for 5 s. Closed sooner, it is never used too late.
  const timeout = 1_000;
  const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY, timeout });
  const synced = file === undefined ? async () => {} : syncs(file);
  const server = createServer(async (req, res) => {
    const body = await bytesOf(req);
    await synced();
    const { url, method, headers } = req;
    request(`${upstream}${url}`, { method, agent, headers }, async (answer) => {
      const bytes = await bytesOf(answer);
      await synced();
      res.writeHead(answer.statusCode ?? 502, { 'content-type': 'text/event-stream' }).end(bytes);
    }).end(body);
  });
  server.listen(Number(port), '127.0.0.1');
}

/** Resolves when the file is written after the call. One write runs at a time. */
function syncs(file: string): () => Promise<void> {
  const thread = new Worker(new URL(import.meta.url), { workerData: file });
  let running: (() => void)[] = [];
  let waiting: (() => void)[] = [];
  const next = () => {
    if (running.length > 0 || waiting.length === 0) return;
    [running, waiting] = [waiting, []];
    thread.postMessage(null);
  };
  thread.on('message', () => {
    const done = running;
    running = [];
    for (const resolve of done) resolve();
    queueMicrotask(next);
  });
  return () =>
    new Promise((resolve) => {
      waiting.push(resolve);
      next();
    });
}

async function bytesOf(source: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of source) pieces.push(piece as Buffer);
  return Buffer.concat(pieces);
}
