import { SvcError } from '../../errors.ts';
import { oneLine } from '../../logs/plain.ts';
import type { ControlClient } from '../../transport/control/client.ts';
import { withDaemon } from '../connect/ask-daemon.ts';
import type { Context } from '../context.ts';
import { textFlag } from '../parse/flag-values.ts';
import { print, printJson } from '../print/output.ts';
import { wholeId } from './whole-id.ts';

/** Removes runs from the log, the newest first: a turn repeats the turns before it. */
export async function run({ paths, args, flags, json }: Context): Promise<number> {
  const conversation = textFlag(flags, 'conversation');
  if ((conversation === undefined) === (args.length === 0))
    throw new SvcError('usage', 'Give either the ids of runs or --conversation.');
  const removed = await withDaemon(paths, async (client) => {
    const ids =
      conversation === undefined
        ? newestFirst(await Promise.all(args.map((written) => wholeId(client, written))))
        : await turnsOf(client, conversation);
    const done: string[] = [];
    for (const id of ids) {
      await client.call('run.remove', { id }, { timeout_ms: REMOVE_MS });
      done.push(id);
      if (!json) print(`Removed ${oneLine(id)}.`);
    }
    return done;
  });
  if (json) printJson({ removed });
  return 0;
}

/** By their ids, which begin with a time. */
function newestFirst(ids: readonly string[]): string[] {
  return [...new Set(ids)].sort().reverse();
}

/** All runs of a conversation, newest first. */
async function turnsOf(client: ControlClient, conversation: string): Promise<string[]> {
  const ids: string[] = [];
  for (let before: string | null = null; ; ) {
    const page: Page = await client.call('run.list', {
      ...{ conversation, texts: 'short' },
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
