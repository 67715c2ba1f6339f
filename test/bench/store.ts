import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs';
import type { StoredEvent } from '../../src/store/port.ts';
import { event, makePlace } from '../store/samples.ts';

/**
 * Durable events a second, of the store and of a loop of append and fdatasync with the same bytes.
 *
 * They take turns. The ratio is the median of the ratios within a round, so that a busy machine
 * slows both sides.
 */

const BATCHES = [1, 10, 100, 1000];
const TURNS = 7;
const TURN_MS = 300;
const text = 'x'.repeat(800);

/** Events of about one kilobyte, in eight streams. */
function batch(first: number, count: number): StoredEvent[] {
  return Array.from({ length: count }, (_, index) => {
    const at = first + index - 1;
    return event(at + 1, `run_${at % 8}`, Math.floor(at / 8) + 1, {
      type: 'run.output_appended',
      data: { attempt: 1, text, token_ids: [1, 2, 3, 4] },
    });
  });
}

interface Turn {
  /** Events a second. */
  rate: number;
  commits_ms: number[];
}

/** Commits one after the other for a while. */
async function takeTurn(count: number, commit: () => unknown): Promise<Turn> {
  const commits_ms: number[] = [];
  const started = performance.now();
  let now = started;
  while (now - started < TURN_MS) {
    await commit();
    commits_ms.push(performance.now() - now);
    now = performance.now();
  }
  return { rate: (commits_ms.length * count * 1000) / (now - started), commits_ms };
}

async function measure(count: number): Promise<Record<string, number>> {
  const stored: Turn[] = [];
  const bare: Turn[] = [];
  for (let time = 0; time < TURNS; time += 1) {
    stored.push(await takeTurn(count, () => appendToStore(count)));
    bare.push(await takeTurn(count, () => appendToFile(count)));
  }
  return {
    batch: count,
    'store events/s': Math.round(median(stored.map(({ rate }) => rate))),
    'bare events/s': Math.round(median(bare.map(({ rate }) => rate))),
    ratio: round(median(stored.map(({ rate }, turn) => rate / (bare[turn]?.rate ?? Number.NaN)))),
    'store p50 ms': round(percentile(stored, 0.5)),
    'store p99 ms': round(percentile(stored, 0.99)),
    'bare p50 ms': round(percentile(bare, 0.5)),
    'bare p99 ms': round(percentile(bare, 0.99)),
  };
}

async function appendToStore(count: number): Promise<void> {
  await store.append({ events: batch(seq + 1, count), runs: [] });
  seq += count;
}

function appendToFile(count: number): void {
  const lines = batch(1, count).map((one) => `${JSON.stringify(one)}\n`);
  writeSync(file, lines.join(''));
  fdatasyncSync(file);
}

function percentile(turns: Turn[], share: number): number {
  const all = turns.flatMap(({ commits_ms }) => commits_ms).sort((a, b) => a - b);
  return all[Math.floor(all.length * share)] ?? Number.NaN;
}

function median(values: number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

function round(value: number): number {
  return Number(value.toFixed(2));
}

const place = makePlace();
const store = place.store();
await store.open();
const file = openSync(`${place.folder}/bare`, 'a');
let seq = 0;
const rows: Record<string, number>[] = [];
for (const count of BATCHES) rows.push(await measure(count));
console.table(rows);

const started = performance.now();
const { events, ok } = await store.verify();
console.log(
  `check of all ${events} events: ${Math.round(performance.now() - started)} ms, ${ok ? 'whole' : 'NOT whole'}`,
);
await store.close();
const again = place.store();
const opening = performance.now();
await again.open();
console.log(
  `open of that log, thread and check of its end included: ${Math.round(performance.now() - opening)} ms`,
);
await again.close();
closeSync(file);
place.remove();
