import { parentPort, workerData } from 'node:worker_threads';
import { asSvcError } from '../errors.ts';
import { PromptCache } from './decode/prompt-cache.ts';
import { Embedder, loadEmbedder } from './embedder.ts';
import { type LoadedModel, loadModel } from './load.ts';
import { StopFlags } from './native/stop-flags.ts';
import type { FromWorker, LoadOrder, ToEngine } from './protocol/messages.ts';
import { Runs } from './runs.ts';

/**
 * The thread of the engine process that computes. It loads one model, and answers runs or computes
 * vectors.
 */
const stops = new StopFlags(workerData as SharedArrayBuffer);
let runs: Runs | null = null;
let embedder: Embedder | null = null;

parentPort?.on('message', receive);

function receive(order: ToEngine): void {
  switch (order.type) {
    case 'load':
      void load(order);
      break;
    case 'run':
    case 'read':
      stops.lower(order.id);
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
      void Promise.resolve(runs?.close()).finally(() => send({ type: 'closed' }));
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
    const loaded = await loadModel(order, progressReports(), stops, createWatchedRender(order));
    runs = new Runs(loaded, send, await openCache(loaded, order));
    send({ type: 'loaded', ...loaded.info });
  } catch (thrown) {
    const error = asSvcError(thrown, 'engine_failed');
    console.error('the model was not loaded:', error.cause ?? error);
    send({ type: 'load_failed', error: error.summary() });
  }
}

/** Rendering blocks this thread, so the other one ends the process if it takes too long. */
function createWatchedRender({ template_ms: ms }: LoadOrder): LoadedModel['rendered'] {
  return (work, id) => {
    if (ms === null) return work();
    send({ type: 'rendering', id: id ?? null, ms });
    try {
      return work();
    } finally {
      send({ type: 'rendered' });
    }
  };
}

async function openCache(
  { decoder, engineKey }: LoadedModel,
  { prompts }: LoadOrder,
): Promise<PromptCache | null> {
  if (prompts === undefined || prompts.budget_bytes === 0) return null;
  const { model, ...place } = prompts;
  const cache = new PromptCache({
    ...place,
    key: { model, engine: engineKey },
    decoder,
    report: (report) => send({ type: 'prompt_file', ...report }),
  });
  await cache.open().catch((error) => console.error('the computed prompts are not read:', error));
  return cache;
}

/** Sends each further hundredth of the load. False: the load is wanted no more. */
function progressReports(): (loaded: number) => boolean {
  let sent = 0;
  return (loaded) => {
    if (loaded - sent >= 0.01) {
      sent = loaded;
      send({ type: 'progress', loaded });
    }
    return !stops.areAllRaised;
  };
}

function send(message: FromWorker): void {
  parentPort?.postMessage(message);
}
