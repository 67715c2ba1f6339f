import type { ConversationContext, ConversationEntry } from '../../../machines/conversation.ts';
import type { Message } from '../../../machines/messages.ts';
import { hasCode, SvcError } from '../../errors.ts';
import type { Runtime } from '../../runtime/port.ts';
import { type Item, inputItems, itemId } from './responses/items.ts';
import { partsOfAll, type Said, saidIn } from './responses/messages.ts';
import { fieldsOf } from './responses/object.ts';
import type { SentNames } from './responses/tools.ts';

/**
 * What a conversation says: what programs added, and the input and output of its runs, in order.
 *
 * 1. A run counts when it has completed. One that failed or was removed says nothing.
 * 2. An item is one message of a user, or one part of what a model or a tool said.
 */

type Runs = Pick<Runtime, 'runs'>;

/** An item with its id, as a message that has it alone. */
interface PlacedItem {
  readonly id: string;
  readonly message: Message;
  /** What the client of its run calls the tools. */
  readonly names?: SentNames | undefined;
}

/** The item in the form of the API. */
export function itemIn({ id, message, names }: PlacedItem): Item {
  return { ...inputItems('', [message], names)[0], id };
}

/** The items of each entry, in the order asked for. Only the entries that are read are loaded. */
export async function* itemsOf(
  runtime: Runs,
  conversation: ConversationContext,
  order: 'asc' | 'desc' = 'asc',
): AsyncGenerator<readonly PlacedItem[], void> {
  const { entries, removed } = conversation;
  const key = runLike(conversation.conversation_id);
  let added = 0;
  const placed = entries.map((entry) => {
    const messages = 'messages' in entry ? entry.messages.flatMap(oneByOne) : [];
    const first = added;
    added += messages.length;
    return { entry, own: messages.map((message, n) => ({ id: inputId(key, first + n), message })) };
  });
  for (const { entry, own } of order === 'asc' ? placed : placed.reverse()) {
    const all = 'run_id' in entry ? await ofRun(runtime, entry.run_id) : own;
    const left = all.filter(({ id }) => !removed.includes(id));
    yield order === 'asc' ? left : left.reverse();
  }
}

/**
 * The messages that a next run follows. A run has those before it, so the newest one says them all,
 * unless an item was removed since.
 */
export async function messagesOfRequest(
  runtime: Runs,
  conversation: ConversationContext,
): Promise<Message[]> {
  const { entries, removed } = conversation;
  const newest = removed.length > 0 ? null : await newestRun(runtime, entries);
  const from = newest === null ? 0 : newest.place + 1;
  const later = { ...conversation, entries: entries.slice(from) };
  const messages: Message[] = [];
  for await (const items of itemsOf(runtime, later))
    messages.push(...items.map((one) => one.message));
  return [...(newest?.messages ?? []), ...turnsOf(messages)];
}

async function newestRun(
  runtime: Runs,
  entries: readonly ConversationEntry[],
): Promise<{ place: number; messages: Message[] } | null> {
  for (const [place, entry] of [...entries.entries()].reverse()) {
    const run = 'run_id' in entry ? await completed(runtime, entry.run_id) : null;
    if (run === null) continue;
    const messages = run.request.messages.slice(run.fields.instructions === true ? 1 : 0);
    return { place, messages: [...messages, ...run.turns, ...answerMessage(run)] };
  }
  return null;
}

async function ofRun(runtime: Runs, run_id: string): Promise<PlacedItem[]> {
  const run = await completed(runtime, run_id);
  if (run === null) return [];
  const { names } = run.fields;
  const { messages, tools = [] } = run.request;
  const served = new Set(tools.flatMap(({ name, server }) => (server === undefined ? [] : name)));
  const own = messages.slice(messages.length - (run.fields.new_messages ?? messages.length));
  return [
    ...own.flatMap(oneByOne).map((message, n) => ({ id: inputId(run_id, n), message, names })),
    ...partsOfAll(run).flatMap((part, n) => {
      const message = { role: 'assistant', content: [part] } as const;
      // svc carries out such a call: it is a part of its run, and no item.
      const isServed = part.type === 'tool_call' && served.has(part.name);
      return isServed ? [] : [{ id: itemId(run_id, part, n), message, names }];
    }),
  ];
}

/** What a completed response was asked, and its answer. Null: there is none. */
async function completed(runtime: Runs, run_id: string) {
  try {
    const record = await runtime.runs.get(run_id);
    if (record.state !== 'completed') return null;
    const { request, asked_as } = await runtime.runs.readRequest(run_id);
    return { request, fields: fieldsOf(asked_as) ?? {}, ...saidIn(record) };
  } catch (error) {
    if (hasCode(error, 'run_unknown')) return null;
    throw error;
  }
}

function answerMessage({ answer }: Said): Message[] {
  return answer.length === 0 ? [] : [{ role: 'assistant', content: answer }];
}

/** Items of the model that follow each other are one turn, unless one of them begins the next. */
function turnsOf(messages: readonly Message[]): Message[] {
  const turns: Message[] = [];
  for (const message of messages) {
    const last = turns.at(-1);
    const isCall = message.content.every(({ type }) => type === 'tool_call');
    const follows = isCall || last?.content.every(({ type }) => type === 'reasoning') === true;
    if (message.role === 'assistant' && last?.role === 'assistant' && follows)
      turns[turns.length - 1] = { ...last, content: [...last.content, ...message.content] };
    else turns.push(message);
  }
  return turns;
}

function oneByOne(message: Message): Message[] {
  if (message.role === 'system' || message.role === 'user') return [message];
  return message.content.map((part) => ({ ...message, content: [part] }));
}

function inputId(run_id: string, index: number): string {
  return `${String(inputItems(run_id, [EMPTY])[0]?.id).replace(/\d+$/, '')}${index}`;
}
const EMPTY: Message = { role: 'user', content: [] };

/** The id of a conversation in the form of a run's, from which ids of items are made. */
function runLike(conversation_id: string): string {
  return conversation_id.replace(/^conv_/, 'run_');
}

/** Throws conversation_unknown for an item that the conversation does not have. */
export async function findItem(
  runtime: Runs,
  conversation: ConversationContext,
  id: string,
): Promise<PlacedItem> {
  // The id of an item has that of its run, so no other run is read.
  const isOf = (run_id: string) => id.includes(run_id.slice('run_'.length));
  const entries = conversation.entries.filter(
    (entry) => !('run_id' in entry) || isOf(entry.run_id),
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
