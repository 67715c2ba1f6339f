import { asSvcError } from '../../../errors.ts';
import type { FromEngine } from '../from-engine.ts';
import { PromptCache } from './decode/prompt-cache.ts';
import { Embedder, loadEmbedder } from './embedder.ts';
import { type LoadedModel, loadModel } from './load.ts';
import type { LoadOrder, ToEngine } from './messages.ts';
import { Runs } from './runs.ts';

/**
 * The engine process. It loads one model, and answers runs or computes vectors. It exits on request
 * and when the daemon is gone. The daemon handles the signals that a terminal sends to the group.
 */
let runs: Runs | null = null;
let embedder: Embedder | null = null;

// Only the daemon that started it has the channel.
process.on('message', (order) => receive(order as ToEngine));
process.on('disconnect', () => process.exit(0));
// Without a listener, Node opens a debugger at SIGUSR1.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR1'] as const)
  process.on(signal, () => {});
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
send({ type: 'started' });

function receive(order: ToEngine): void {
  switch (order.type) {
    case 'load':
      void load(order);
      break;
    case 'run':
    case 'read':
      runs?.start(order);
      break;
    case 'embed':
      embedder?.start(order);
      break;
    case 'stop_run':
      runs?.stop(order.id);
      embedder?.stop(order.id);
      break;
    case 'stop':
      void Promise.resolve(runs?.close()).finally(() => process.exit(0));
      break;
    default:
      order satisfies never;
  }
}

async function load(order: LoadOrder): Promise<void> {
  try {
    if (order.purpose !== 'answers') {
      const loaded = await loadEmbedder(order, progressReports());
      embedder = new Embedder(loaded, send);
      send({ type: 'loaded', ...loaded.info });
      return;
    }
    const loaded = await loadModel(order, progressReports());
    runs = new Runs(loaded, send, await openCache(loaded, order));
    send({ type: 'loaded', ...loaded.info });
  } catch (thrown) {
    const error = asSvcError(thrown, 'engine_failed');
    console.error('the model was not loaded:', error.cause ?? error);
    send({ type: 'load_failed', error: error.summary() });
  }
}

async function openCache(
  { decoder, context_length, engineKey }: LoadedModel,
  { prompts }: LoadOrder,
): Promise<PromptCache | null> {
  if (prompts === undefined || prompts.budget_bytes === 0) return null;
  const { model, ...place } = prompts;
  const cache = new PromptCache({
    ...place,
    key: { model, engine: engineKey },
    decoder,
    context_length,
    report: (report) => sent({ type: 'prompt_file', ...report }),
  });
  await cache.open().catch((error) => console.error('the computed prompts are not read:', error));
  return cache;
}

/** Sends each further hundredth of the load. The library reports each tensor. */
function progressReports(): (loaded: number) => void {
  let sent = 0;
  return (loaded) => {
    if (loaded - sent < 0.01) return;
    sent = loaded;
    send({ type: 'progress', loaded });
  };
}

function send(message: FromEngine): void {
  if (process.connected) process.send?.(message, undefined, {}, () => {});
}

/** Resolves when the daemon can read it: an exit loses what is on the way. */
function sent(message: FromEngine): Promise<void> {
  return new Promise((done) => {
    if (process.connected) process.send?.(message, undefined, {}, () => done());
    else done();
  });
}
