import { withoutNull } from '../../contract/check.ts';
import type { ConversationUsage } from '../../contract/usage.ts';
import { SvcError } from '../../errors.ts';
import type { DamagedRun, EventStore, RunRow } from '../../kernel/store/port.ts';
import { findRun, LAST, type Names, namesIn } from '../runs/find.ts';
import { isMade } from '../runs/ids.ts';
import { unknownRun } from '../runs/run-errors.ts';

/** The reads that find a conversation. */
export type ConversationReads = Pick<
  EventStore,
  'runHead' | 'listRuns' | 'runsNamed' | 'lastRun' | 'askerOf'
>;

/** The first run of the conversation of a run, which may be gone. Throws run_unknown. */
export async function findConversation(
  store: ConversationReads,
  written: string,
  names: Names = {},
): Promise<string> {
  if (isMade(written)) return written;
  const { asked_by, origin = null } = names;
  const id = await findRun(namesIn(store, names), written).catch((error: unknown) => {
    throw written === LAST ? noneYet(origin) : error;
  });
  const isSeen = asked_by === undefined || (await store.askerOf(id)) === asked_by;
  const head = isSeen ? await store.runHead(id) : null;
  if (head !== null) return head.conversation;
  const own = withoutNull({ asked_by });
  const [later] = await store.listRuns({ conversation: id, limit: 1, short: true, ...own });
  if (later === undefined) throw unknownRun(id);
  return id;
}

/** The usage of the ended runs of a conversation. Throws run_unknown. */
export async function conversationUsage(
  store: ConversationReads & Pick<EventStore, 'conversationUsage'>,
  id: string,
): Promise<ConversationUsage> {
  const conversation = await findConversation(store, id);
  return { conversation, ...(await store.conversationUsage(conversation)) };
}

/** The runs of a conversation, newest first and in short form. They are read in pages. */
export async function* runsFromNewest(
  store: Pick<EventStore, 'listRuns'>,
  conversation: string,
): AsyncGenerator<RunRow | DamagedRun> {
  let before: string | undefined;
  // Mostly the newest run is the match.
  for (let limit = 1; ; limit = PAGE_RUNS) {
    const query = { conversation, limit, short: true };
    const page = await store.listRuns({ ...query, ...withoutNull({ before }) });
    yield* page;
    before = page.at(-1)?.run_id;
    if (before === undefined) return;
  }
}

const PAGE_RUNS = 20;

function noneYet(origin: string | null): SvcError {
  return new SvcError(
    'run_unknown',
    origin === null ? 'There is no run yet.' : 'No conversation was begun in this folder.',
    { param: 'conversation', hint: 'Begin one: svc run "…". Or name one with --conversation.' },
  );
}
