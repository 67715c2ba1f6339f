import type { ConversationContext, ConversationEntry } from '../../../machines/conversation.ts';
import type { Message } from '../../contract/messages/parts.ts';
import { hasCode, SvcError } from '../../errors.ts';
import type { Runtime } from '../../operations/port.ts';
import type { Reading } from '../documents/documents.ts';
import { toApiId } from '../ids.ts';
import { conversationOf } from './responses/earlier.ts';
import { type Item, inputItems } from './responses/items.ts';
import { messagesOf } from './responses/messages.ts';
import { inputOf, readResponseItems } from './responses/read.ts';

/**
 * What a conversation says: what programs added, and the input and output of its runs, in order.
 *
 * 1. A response counts when it is complete. A run that failed before, or was removed, says nothing.
 * 2. An item is one message of a user, or one item of what a model or a tool said.
 */

type Runs = Pick<Runtime, 'runs'>;

/** The items of each entry, in the order asked for. Only the entries that are read are loaded. */
export async function* itemsOf(
  runtime: Runs,
  conversation: ConversationContext,
  order: 'asc' | 'desc' = 'asc',
): AsyncGenerator<readonly Item[], void> {
  const { entries, removed } = conversation;
  // Ids of items are made from the id of a run, so the conversation has one like it.
  const key = conversation.conversation_id.replace(/^conv_/, 'run_');
  let added = 0;
  const placed = entries.map((entry) => {
    if ('run_id' in entry) return entry.run_id;
    const own = inputItems(key, entry.messages, entry, added);
    added += own.length;
    return own;
  });
  for (const entry of order === 'asc' ? placed : placed.reverse()) {
    const all = typeof entry === 'string' ? await itemsOfRun(runtime, entry) : entry;
    const remaining = all.filter(({ id }) => !removed.includes(String(id)));
    yield order === 'asc' ? remaining : remaining.reverse();
  }
}

async function itemsOfRun(runtime: Runs, run_id: string): Promise<Item[]> {
  const said = await ignoreUnknown(readResponseItems(runtime, run_id));
  return said === null || said.items === null ? [] : [...inputOf(said.source), ...said.items];
}

/** Null for a run that was removed. */
async function ignoreUnknown<T>(found: Promise<T>): Promise<T | null> {
  try {
    return await found;
  } catch (error) {
    if (hasCode(error, 'run_unknown')) return null;
    throw error;
  }
}

/**
 * The messages that a next run follows. A run has those before it, so the newest one says them all,
 * unless an item was removed since.
 */
export async function messagesOfRequest(
  runtime: Runs,
  conversation: ConversationContext,
  reading: Reading,
): Promise<readonly Message[]> {
  const { entries, removed } = conversation;
  const newest = removed.length > 0 ? NOTHING : await newestRun(runtime, entries);
  const later: Item[] = [];
  for await (const items of itemsOf(runtime, {
    ...conversation,
    entries: entries.slice(newest.end),
  }))
    later.push(...items);
  const { messages } = newest;
  // What svc sends as items is valid as input, too.
  const read = await messagesOf(runtime, later as never, messages, reading);
  return [...messages, ...read.messages];
}

/** What the newest complete run says with all before it. `end`: the place after it. */
async function newestRun(
  runtime: Runs,
  entries: readonly ConversationEntry[],
): Promise<{ end: number; messages: readonly Message[] }> {
  for (const [place, entry] of [...entries.entries()].reverse()) {
    if (!('run_id' in entry)) continue;
    const { run_id } = entry;
    if ((await ignoreUnknown(runtime.runs.head(run_id)))?.state !== 'completed') continue;
    const response = toApiId('resp_', run_id);
    const { messages } = await conversationOf(runtime, response, { unstored: true });
    return { end: place + 1, messages };
  }
  return NOTHING;
}
const NOTHING = { end: 0, messages: [] };

/** Throws conversation_unknown for an item that the conversation does not have. */
export async function findItem(
  runtime: Runs,
  conversation: ConversationContext,
  id: string,
): Promise<Item> {
  // The id of an item has that of its run, so no other run is read.
  const isFromRun = (run_id: string) => id.includes(run_id.slice('run_'.length));
  const entries = conversation.entries.filter(
    (entry) => !('run_id' in entry) || isFromRun(entry.run_id),
  );
  for await (const items of itemsOf(runtime, { ...conversation, entries })) {
    const found = items.find((item) => item.id === id);
    if (found !== undefined) return found;
  }
  throw new SvcError(
    'conversation_unknown',
    `The conversation has no item ${JSON.stringify(id.slice(0, 80))}.`,
    { param: 'item_id', hint: 'GET /v1/conversations/{id}/items lists them.' },
  );
}
