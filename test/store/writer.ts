import { createInterface } from 'node:readline';
import { createSqliteStore } from '../../src/store/sqlite.ts';
import { event, run } from './samples.ts';

/**
 * A process that owns a log: `writer.ts <database> <highWater>`. It prints `open <last_seq>` or `refused <code> <message>`. Then, after each line on stdin, it
 * appends commits: `one`, or `on` for one after the other. Each commit that is acknowledged is printed as `acked <seq>`.
 */

const [, , database = '', highWater = ''] = process.argv;
const store = createSqliteStore({ database, highWater });
let seq = 0;
/** Far more than any test lets it write: a writer that is left behind comes to an end. */
const EVENTS_MAX = 100_000;

/** A commit of 1 to 40 events, the same whenever it begins at the same place: events of a run and of a stream that all share. */
async function append(): Promise<void> {
  const count = 1 + ((seq * 7) % 40);
  const run_id = `run_${seq + 1}`;
  const shared = event(seq + 1, run_id, 1);
  const own = Array.from({ length: count }, (_, index) =>
    event(seq + 2 + index, run_id, index + 2, { data: { text: 'x'.repeat((seq * 31 + index * 17) % 3000) } }),
  );
  seq += count + 1;
  await store.append({ events: [shared, ...own], runs: [run(run_id, { seq, created_at: seq })] });
  console.log(`acked ${seq}`);
}

async function obey(line: string): Promise<void> {
  if (line === 'one') await append();
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
} finally {
  await store.close().catch(() => {});
}
