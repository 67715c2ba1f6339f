import { hasCode, SvcError } from '../../errors.ts';
import { oneLine } from '../../logs/plain.ts';
import type { ControlClient } from '../../transport/control/client.ts';
import type { Results } from '../../transport/control/protocol.ts';
import { withDaemon } from '../terminal/connect/ask-daemon.ts';
import { wholeId } from '../terminal/connect/whole-id.ts';
import type { Context } from '../terminal/context.ts';
import { textFlag } from '../terminal/parse/flag-values.ts';
import { print, printJson, warn } from '../terminal/print/output.ts';

/**
 * Removes runs from the log, the newest first: a turn repeats the turns before it. A damaged run
 * stays and stops no other. Exit 1 if texts may still be there.
 */
export async function run({ paths, args, flags, json }: Context): Promise<number> {
  const conversation = textFlag(flags, 'conversation');
  if ((conversation === undefined) === (args.length === 0))
    throw new SvcError('usage', 'Give either the ids of runs or --conversation.');
  const report = await withDaemon(paths, async (client) => {
    const ids =
      conversation === undefined
        ? sortNewestFirst(await Promise.all(args.map((written) => wholeId(client, written))))
        : await turnsOf(client, conversation);
    return removeAll(client, ids, (id) => !json && print(`Removed ${oneLine(id)}.`));
  });
  if (json) printJson(report);
  for (const { id, message } of report.damaged ?? [])
    warn(`${id} was not removed. ${message} See: svc doctor`);
  if (report.trouble !== undefined) warn(report.trouble);
  return report.damaged === undefined && report.trouble === undefined ? 0 : 1;
}

interface Report {
  removed: string[];
  damaged?: { id: string; message: string }[];
  /** Why texts may still be in the log, after the last removal. */
  trouble?: string;
}

async function removeAll(
  client: ControlClient,
  ids: readonly string[],
  onRemoved: (id: string) => void,
): Promise<Report> {
  const removed: string[] = [];
  const damaged: NonNullable<Report['damaged']> = [];
  let last: Results['run.remove'] | undefined;
  for (const id of ids) {
    try {
      last = await client.call('run.remove', { id }, { timeout_ms: REMOVE_MS });
      removed.push(id);
      onRemoved(id);
    } catch (error) {
      if (!hasCode(error, 'store_corrupt')) throw error;
      damaged.push({ id, message: error.message });
    }
  }
  return {
    removed,
    ...(damaged.length === 0 ? {} : { damaged }),
    ...(last?.trouble === undefined ? {} : { trouble: last.trouble }),
  };
}

/** By their ids, which begin with a time. */
function sortNewestFirst(ids: readonly string[]): string[] {
  return [...new Set(ids)].sort().reverse();
}

/** All runs of a conversation, newest first. */
async function turnsOf(client: ControlClient, conversation: string): Promise<string[]> {
  const ids: string[] = [];
  for (let before: string | null = null; ; ) {
    const page: Page = await client.call('run.list', {
      conversation,
      texts: 'short',
      ...(before === null ? {} : { before }),
    });
    ids.push(...page.runs.map(({ id }) => id), ...(page.damaged ?? []).map(({ id }) => id));
    if (page.next === null) return ids;
    before = page.next;
  }
}

type Page = Awaited<ReturnType<ControlClient['call']>> & {
  runs: { id: string }[];
  damaged?: { id: string }[];
  next: string | null;
};

/** A large file is shrunk in steps. */
const REMOVE_MS = 120_000;
