import type { DaemonSnapshot } from '../../../machines/daemon/chart.ts';
import type { RunHead } from '../../contract/contract.ts';
import { SvcError } from '../../errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { EventStore } from '../../kernel/store/port.ts';
import type { DaemonKey } from '../../kernel/stream.ts';
import type { Conversations } from '../conversations/conversations.ts';
import { runsFromNewest } from '../conversations/find-conversation.ts';
import { unknownRun } from './run-errors.ts';

export interface RemoveSources {
  kernel: Kernel;
  store: Pick<EventStore, 'prune' | 'removeRun' | 'runHead' | 'listRuns'>;
  /** Stream of this boot's daemon machine. */
  daemon: DaemonKey;
  head(run_id: string): Promise<RunHead>;
  /** No turn begins while a run is removed. It would repeat the texts of the run. */
  conversations: Pick<Conversations, 'runExclusive'>;
}

/** A run that was removed. */
export interface Removal {
  /** Why its texts may still be in the log, in sentences. */
  trouble?: string;
}

/**
 * Removes a finished run from the log, with its events, its record and its idempotency key. The
 * numbers of its events stay gaps, as after retention, so the log can be verified.
 *
 * Throws run_unknown, run_unfinished, run_continued, conversation_busy, daemon_stopping, and the
 * errors of the store: store_corrupt for a damaged run.
 */
export async function removeRun(sources: RemoveSources, run_id: string): Promise<Removal> {
  const { store, head, conversations } = sources;
  if (!(await head(run_id)).finished)
    throw new SvcError('run_unfinished', undefined, {
      hint: `Cancel it with svc runs cancel ${run_id}, or wait for its end.`,
    });
  const conversation = (await store.runHead(run_id))?.conversation ?? run_id;
  return conversations.runExclusive(conversation, async () => {
    const damaged = await findDamagedTurns(store, run_id, conversation);
    const unwritten = await removeFrom(sources, run_id);
    const trouble = [
      ...damaged.map((id) => `The run ${id} repeats its texts, and stays because it is damaged.`),
      ...(unwritten === undefined
        ? []
        : [
            `The write-ahead log still has its texts (${unwritten.replace(/\.$/, '')}). ` +
              'The next removal empties it, or the stop of the daemon.',
          ]),
    ];
    return trouble.length === 0 ? {} : { trouble: trouble.join(' ') };
  });
}

/** Returns why its texts are still in the write-ahead log. */
async function removeFrom(
  { kernel, store, daemon }: RemoveSources,
  run_id: string,
): Promise<string | undefined> {
  let step = await store.removeRun(run_id);
  if (step.runs === 0) {
    // The log must end with an event. Another event replaces the last event of the run there.
    const room = { type: 'daemon.history_pruned', runs: 0, events: 0 } as const;
    if (!(await kernel.tryAppend(daemon, room))) throw new SvcError('daemon_stopping');
    step = await store.removeRun(run_id);
  }
  if (step.runs === 0) throw unknownRun(run_id);
  const { runs, events } = step;
  await kernel.tryAppend(daemon, { type: 'daemon.history_pruned', runs, events });
  const keep_boot = (kernel.snapshot(daemon) as DaemonSnapshot).context.boot_id;
  const nothing = { before_at: null, max_bytes: null, keep_boot, limit: 1 };
  while (step.more) step = await store.prune(nothing);
  return step.trouble;
}

/**
 * The damaged runs among the later turns of the conversation. Throws run_continued for any other
 * turn: it has the texts of this run too.
 */
async function findDamagedTurns(
  store: RemoveSources['store'],
  run_id: string,
  conversation: string,
): Promise<string[]> {
  const damaged: string[] = [];
  for await (const row of runsFromNewest(store, conversation)) {
    if (row.run_id === run_id) return damaged;
    if (!('damage' in row)) throw runContinuedError(run_id, row.run_id, conversation);
    damaged.push(row.run_id);
  }
  return damaged;
}

function runContinuedError(run_id: string, newest: string, conversation: string): SvcError {
  return new SvcError(
    'run_continued',
    `The run ${run_id} has later turns, which repeat its texts. The newest is ${newest}.`,
    { hint: `Remove them too: svc runs remove --conversation ${conversation}` },
  );
}
