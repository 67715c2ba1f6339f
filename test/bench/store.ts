import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs';
import type { EventStore, StoredEvent } from '../../src/store/store.ts';
import { event, makePlace } from '../store/samples.ts';

/**
 * Durable events a second, of the store and of the least that any durable log can do: a loop of append and fdatasync of the same bytes. Both take turns in one
 * run, so that the ratio holds on a busy machine too.
 */

const BATCHES = [1, 10, 100, 1000];
const TURNS = 5;
const TURN_MS = 400;
const text = 'x'.repeat(800);

/** About one kilobyte an event, of eight streams. */
function batch(first: number, count: number): StoredEvent[] {
  return Array.from({ length: count }, (_, index) => {
    const at = first + index - 1;
    return event(at + 1, `run_${at % 8}`, Math.floor(at / 8) + 1, { type: 'run.output_appended', data: { attempt: 1, text, token_ids: [1, 2, 3, 4] } });
  });
}

interface Tally {
  events: number;
  ms: number;
  commits_ms: number[];
}

async function turn(tally: Tally, count: number, append: (events: StoredEvent[]) => unknown, next: () => number): Promise<void> {
  const started = performance.now();
  for (let now = started; now - started < TURN_MS; ) {
    await append(batch(next(), count));
    const after = performance.now();
    tally.commits_ms.push(after - now);
    tally.events += count;
    now = after;
  }
  tally.ms += performance.now() - started;
}

async function measure(count: number, store: EventStore, log: { fd: number; seq: number }): Promise<Record<string, unknown>> {
  const stored: Tally = { events: 0, ms: 0, commits_ms: [] };
  const bare: Tally = { events: 0, ms: 0, commits_ms: [] };
  for (let time = 0; time < TURNS; time += 1) {
    await turn(
      stored,
      count,
      async (events) => {
        await store.append({ events, runs: [] });
        log.seq += count;
      },
      () => log.seq + 1,
    );
    let seq = 1;
    await turn(
      bare,
      count,
      (events) => {
        writeSync(log.fd, events.map((one) => `${JSON.stringify(one)}\n`).join(''));
        fdatasyncSync(log.fd);
        seq += count;
      },
      () => seq,
    );
  }
  const rate = ({ events, ms }: Tally) => (events * 1000) / ms;
  const at = ({ commits_ms }: Tally, share: number) => Number(commits_ms.sort((a, b) => a - b)[Math.floor(commits_ms.length * share)]?.toFixed(2));
  return {
    batch: count,
    'store events/s': Math.round(rate(stored)),
    'bare events/s': Math.round(rate(bare)),
    ratio: Number((rate(stored) / rate(bare)).toFixed(2)),
    'store p50 ms': at(stored, 0.5),
    'store p99 ms': at(stored, 0.99),
    'bare p50 ms': at(bare, 0.5),
    'bare p99 ms': at(bare, 0.99),
  };
}

const place = makePlace();
const store = place.store();
await store.open();
const log = { fd: openSync(`${place.folder}/bare`, 'a'), seq: 0 };
const rows: Record<string, unknown>[] = [];
for (const count of BATCHES) rows.push(await measure(count, store, log));
console.table(rows);

const started = performance.now();
const { events, ok } = await store.verify();
console.log(`check of all ${events} events: ${Math.round(performance.now() - started)} ms, ${ok ? 'whole' : 'NOT whole'}`);
await store.close();
const again = place.store();
const opening = performance.now();
await again.open();
console.log(`open of that log, thread and check of its end included: ${Math.round(performance.now() - opening)} ms`);
await again.close();
closeSync(log.fd);
place.remove();
