import { createInterface } from 'node:readline';
import { SMALL_RESERVE } from '../../helpers/small-reserve.ts';
import { createStoreHere } from '../../helpers/store/sqlite-here.ts';
import { event, run } from './samples.ts';

/**
 * A process that owns a log: `writer.ts <database> <highWater>`.
 * It prints `open <last_seq>` or `refused <code> <message>`. Then it reads lines on stdin.
 * `one` appends a commit, `on` appends commits until the end, and `prune` removes all finished
 * runs and prints `pruned`.
 * It prints each acknowledged commit as `acked <seq>`. It repeats a refused commit once: `again
 * <code>`.
 */

const [, , database = '', highWater = ''] = process.argv;
const store = createStoreHere({ database, highWater, limits: SMALL_RESERVE });
let seq = 0;
/** More than any test needs: a writer that is left behind ends. */
const EVENTS_MAX = 100_000;

/** A commit of 2 to 41 events of one run, the same whenever it begins at the same place. */
async function append(): Promise<void> {
  const count = 1 + ((seq * 7) % 40);
  const run_id = `run_${seq + 1}`;
  const first = event(seq + 1, run_id, 1);
  const others = Array.from({ length: count }, (_, index) =>
    event(seq + 2 + index, run_id, index + 2, {
      data: { text: 'x'.repeat((seq * 31 + index * 17) % 3000) },
    }),
  );
  const last = seq + count + 1;
  await store.append({
    events: [first, ...others],
    runs: [run(run_id, { seq: last, created_at: last })],
  });
  seq = last;
  console.log(`acked ${seq}`);
}

/** Removes all finished runs, a few at a time. */
async function prune(): Promise<void> {
  for (let more = true; more; )
    ({ more } = await store.prune({
      before_at: Number.MAX_SAFE_INTEGER,
      max_bytes: null,
      keep_boot: 'boot_2',
      limit: 10,
    }));
  console.log('pruned');
}

async function obey(line: string): Promise<void> {
  if (line === 'one') await append();
  if (line === 'prune') await prune();
  while (line === 'on' && seq < EVENTS_MAX) await append();
}

try {
  seq = (await store.open()).last_seq;
  console.log(`open ${seq}`);
  const lines = createInterface({ input: process.stdin });
  for await (const line of lines) await obey(line);
} catch (error) {
  const { code, message } = error as { code?: string; message: string };
  console.log(`refused ${code} ${message}`);
  await append().catch((second: { code?: string }) => console.log(`again ${second.code}`));
} finally {
  await store.close().catch(() => {});
}
