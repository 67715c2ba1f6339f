import { strippingStore } from '../../../../src/kernel/content.ts';
import type { EventStore } from '../../../../src/kernel/store/port.ts';
import { type RunKey, stream } from '../../../../src/kernel/stream.ts';
import { makeHistory } from '../../../helpers/history.ts';
import { output, untilAborted } from '../../../helpers/scripted-provider.ts';
import { waitFor } from '../../../helpers/wait.ts';
import { event, makePlace, type Place } from '../samples.ts';
import { limits } from './files.ts';

/** A home with the log of `makeLog`. */
export interface MadeLog extends Place {
  /** The run that has not ended. */
  open: RunKey;
}

/**
 * Writes a log and closes it: runs of two boots, removed history in its middle, embeddings, texts
 * that two events have, and a run in progress. `redact`: the outputs are only in the records of the
 * runs.
 */
export async function makeLog({ redact = false } = {}): Promise<MadeLog> {
  const place = makePlace();
  const store = reopened(place.store(limits));
  const history = await makeHistory(
    redact ? strippingStore(store, { prompts: 'keep', outputs: 'keep', redact: ['one'] }) : store,
  );
  const { runtime, kernel, ids, script } = history;
  script.script = (_, signal) => [output('so far ', 3), untilAborted(signal)];
  const { id: open } = await runtime.runs.start(
    { prompt: 'the one in progress', idempotency_key: 'key', conversation: ids.last },
    'somebody',
  );
  await waitFor(
    'it has begun to answer',
    async () => (await runtime.runs.get(open)).output === 'so far ',
  );
  kernel.close();
  await store.removeRun(ids.failed);
  const seq = (await store.readAll(1, 10_000)).at(-1)?.seq ?? 0;
  const price = { input: 2, output: 0 };
  const sent = { provider: 'cloud', model: 'e', client: 'c', estimated_tokens: 7, price };
  const embedding = { type: 'provider.embedding_sent', data: sent };
  const texts = Array.from({ length: 30 }, (_, at) => ({ text: `${at} ${'long '.repeat(60)}` }));
  await store.append({
    events: [
      event(seq + 1, 'provider:cloud:b', 1, embedding),
      event(seq + 2, 's', 1, { data: { texts } }),
      event(seq + 3, 's', 2, { data: { texts: [...texts, ...texts.slice(0, 1)] } }),
    ],
    runs: [],
  });
  await store.close();
  return { ...place, open: stream.run(open) };
}

/** A store that each boot opens. */
function reopened(store: EventStore): EventStore {
  let isOpen = false;
  return {
    ...store,
    open: async () => {
      if (isOpen) await store.close();
      isOpen = true;
      return store.open();
    },
  };
}

/** What users see of a log. `work` comes after it, while the log is open. */
export async function seenIn(store: EventStore, work: () => Promise<void> = async () => {}) {
  await store.open();
  try {
    const found = await seen(store);
    await work();
    return found;
  } finally {
    await store.close();
  }
}

async function seen(store: EventStore) {
  const runs = await store.listRuns({ limit: 1000 });
  return {
    runs,
    found: await store.searchRuns({ terms: ['secret'], limit: 100 }),
    usage: await store.usage({ from_hour: 0, key: 'client' }),
    counts: await store.countRuns(),
    keyed: (await store.getRunByKey('key'))?.run_id,
    open: await store.runsAt(20, 100),
    events: await store.readAll(1, 10_000),
    verified: await store.verify(),
  };
}
