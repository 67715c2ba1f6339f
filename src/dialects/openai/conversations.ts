import * as v from 'valibot';
import type { ConversationContext } from '../../../machines/conversation.ts';
import { runInput } from '../../contract/run.ts';
import { anything, flag, named, object, text, whole } from '../../contract/vocabulary.ts';
import { sendLarge } from '../../transport/http/large.ts';
import { sendJson } from '../../transport/http/reply.ts';
import { type Context, type Route, route } from '../../transport/http/route.ts';
import { readingOf } from '../documents/documents.ts';
import { findItem, itemsOf } from './conversation-items.ts';
import { messagesOf } from './responses/messages.ts';
import { type ItemsQuery, itemList, itemsQuery, pageOf } from './responses/query.ts';
import { inputItems } from './responses/schemas.ts';

/** The Conversations API. A conversation is in the log, and so are the runs that belong to it. */

const { metadata } = runInput.entries;
const ITEMS_MAX = 20;
const items = v.pipe(inputItems, v.maxLength(ITEMS_MAX, `must have at most ${ITEMS_MAX} items.`));
const createInput = named('ConversationInput', object({ items: v.nullish(items), metadata }));
const changeInput = named('ConversationChange', object({ metadata }));
const itemsInput = named(
  'ConversationItemsInput',
  object({ items: v.pipe(items, v.minLength(1, 'must have at least one item.')) }),
);

const conversation = named(
  'Conversation',
  object({
    id: text,
    object: v.literal('conversation'),
    created_at: whole,
    metadata: v.record(text, text),
    /** Not of this API: the name of the token that made it. Absent: the home did. */
    asked_by: v.exactOptional(text),
  }),
);
const list = named(
  'ConversationItems',
  object({
    object: v.literal('list'),
    data: v.array(anything),
    first_id: v.nullable(text),
    last_id: v.nullable(text),
    has_more: flag,
  }),
);
const item = named('ConversationItem', v.looseObject({ type: text, id: text }));

type Create = Context<unknown, v.InferOutput<typeof createInput>>;
type Change = Context<unknown, v.InferOutput<typeof changeInput>>;
type Add = Context<unknown, v.InferOutput<typeof itemsInput>>;

const shared = { access: 'token', unknownFields: 'may refuse' } as const;
const PATH = '/v1/conversations';

export const conversationRoutes: readonly Route[] = [
  route({
    ...shared,
    method: 'POST',
    path: PATH,
    summary: 'OpenAI: makes a conversation, with items or without.',
    body: createInput,
    answers: { 200: conversation },
    answer: create,
  }),
  route({
    ...shared,
    method: 'GET',
    path: `${PATH}/:id`,
    summary: 'OpenAI: a conversation.',
    answers: { 200: conversation },
    answer: async (context: Context) => send(context, await read(context)),
  }),
  route({
    ...shared,
    method: 'POST',
    path: `${PATH}/:id`,
    summary: 'OpenAI: replaces the metadata of a conversation. `title` is its title.',
    body: changeInput,
    answers: { 200: conversation },
    answer: async (context: Change) => {
      const { metadata } = await context.body();
      send(context, await madeConversationsOf(context).describe(idOf(context), metadata ?? {}));
    },
  }),
  route({
    ...shared,
    method: 'DELETE',
    path: `${PATH}/:id`,
    summary: 'OpenAI: deletes a conversation. Its runs stay in the history.',
    answers: {
      200: named(
        'ConversationDeleted',
        object({ id: text, object: v.literal('conversation.deleted'), deleted: flag }),
      ),
    },
    answer: async (context: Context) => {
      const id = idOf(context);
      await madeConversationsOf(context).delete(id);
      sendJson(context.res, 200, { id, object: 'conversation.deleted', deleted: true });
    },
  }),
  route({
    ...shared,
    method: 'POST',
    path: `${PATH}/:id/items`,
    summary: 'OpenAI: adds items to a conversation.',
    body: itemsInput,
    answers: { 200: list },
    answer: add,
  }),
  route({
    ...shared,
    method: 'GET',
    path: `${PATH}/:id/items`,
    summary: 'OpenAI: the items of a conversation, those of its responses included.',
    query: itemsQuery,
    answers: { 200: list },
    answer: listItems,
  }),
  route({
    ...shared,
    method: 'GET',
    path: `${PATH}/:id/items/:item`,
    summary: 'OpenAI: one item of a conversation.',
    answers: { 200: item },
    answer: async (context: Context) => {
      const found = await findItem(context.runtime, await read(context), itemOf(context));
      await sendLarge(context, async () => found);
    },
  }),
  route({
    ...shared,
    method: 'DELETE',
    path: `${PATH}/:id/items/:item`,
    summary: 'OpenAI: removes an item from a conversation. A run that has it keeps it.',
    answers: { 200: conversation },
    answer: async (context: Context) => {
      const { id } = await findItem(context.runtime, await read(context), itemOf(context));
      send(context, await madeConversationsOf(context).removeItem(idOf(context), String(id)));
    },
  }),
];

async function create(context: Create): Promise<void> {
  const { runtime } = context;
  const { items, metadata } = await context.body();
  const added = await messagesOf(runtime, items ?? [], [], readingOf(context));
  send(context, await madeConversationsOf(context).create({ metadata: metadata ?? {}, ...added }));
}

async function add(context: Add): Promise<void> {
  const { runtime } = context;
  const { items } = await context.body();
  const before = await read(context);
  const earlier = before.entries.flatMap((entry) => ('messages' in entry ? entry.messages : []));
  const sent = await messagesOf(runtime, items, earlier, readingOf(context));
  const after = await madeConversationsOf(context).add(idOf(context), sent);
  const last = { ...after, removed: [] };
  for await (const added of itemsOf(runtime, last, 'desc'))
    return sendLarge(context, async () => itemList(added.toReversed()));
}

async function listItems(context: Context<ItemsQuery>): Promise<void> {
  const { runtime, query } = context;
  const items = itemsOf(runtime, await read(context), query.order ?? 'desc');
  await sendLarge(context, () => pageOf(items, query));
}

function send({ res }: Pick<Context, 'res'>, state: ConversationContext): void {
  const { conversation_id: id, created_at, metadata, asked_by } = state;
  const seconds = Math.floor(created_at / 1000);
  const more = asked_by === null ? {} : { asked_by };
  sendJson(res, 200, { id, object: 'conversation', created_at: seconds, metadata, ...more });
}

function read(context: Context): Promise<ConversationContext> {
  return madeConversationsOf(context).get(idOf(context));
}

function madeConversationsOf({ runtime }: Pick<Context, 'runtime'>) {
  return runtime.runs.made;
}

function idOf({ req }: Pick<Context, 'req'>): string {
  return req.params.id ?? '';
}

function itemOf({ req }: Pick<Context, 'req'>): string {
  return req.params.item ?? '';
}
