import { assign, type SnapshotFrom, setup } from 'xstate';
import type { ConversationCreated, ConversationEvent, Deadline } from './events.ts';
import type { Message } from './messages.ts';

/**
 * A conversation that a program made before its first run.
 *
 * 1. It has what the program added, and which runs belong to it. What they say is in their own
 *    streams, so a run that is removed is gone from here too.
 * 2. A run follows all entries before it: another number of entries is refused.
 * 3. A deleted conversation takes nothing more. Its runs stay in the history.
 */

/** What a program added at one time, or a run. */
export type ConversationEntry =
  | { readonly messages: readonly Message[] }
  | { readonly run_id: string };

export interface ConversationContext {
  conversation_id: string;
  asked_by: string | null;
  created_at: number;
  metadata: Readonly<Record<string, string>>;
  entries: readonly ConversationEntry[];
  /** Ids of the items that were removed. */
  removed: readonly string[];
  ended_at: number | null;
}

const { createMachine } = setup({
  types: {} as {
    context: ConversationContext;
    events: ConversationEvent;
    input: ConversationCreated;
  },
  actions: {
    evolve: assign(({ context, event }) => evolve(context, event)),
  },
  guards: {
    isNext: ({ context, event }) =>
      event.type === 'conversation.run_added' && event.place === context.entries.length,
  },
});

export const conversationMachine = createMachine({
  id: 'conversation',
  context: ({ input }) => ({
    conversation_id: input.conversation_id,
    asked_by: input.asked_by ?? null,
    created_at: input.at,
    metadata: input.metadata,
    entries: input.messages.length === 0 ? [] : [{ messages: input.messages }],
    removed: [],
    ended_at: null,
  }),
  initial: 'open',
  states: {
    open: {
      tags: ['stable'],
      on: {
        'conversation.items_added': { actions: 'evolve' },
        'conversation.run_added': { guard: 'isNext', actions: 'evolve' },
        'conversation.item_removed': { actions: 'evolve' },
        'conversation.described': { actions: 'evolve' },
        'conversation.deleted': { target: 'deleted', actions: 'evolve' },
      },
    },
    deleted: { type: 'final' },
  },
});

export type ConversationSnapshot = SnapshotFrom<typeof conversationMachine>;

function evolve(
  { entries, removed }: ConversationContext,
  event: ConversationEvent,
): Partial<ConversationContext> {
  switch (event.type) {
    case 'conversation.items_added':
      return { entries: [...entries, { messages: event.messages }] };
    case 'conversation.run_added':
      return { entries: [...entries, { run_id: event.run_id }] };
    case 'conversation.item_removed':
      return { removed: [...removed, event.item] };
    case 'conversation.described':
      return { metadata: event.metadata };
    case 'conversation.deleted':
      return { ended_at: event.at };
    default:
      return event satisfies never;
  }
}

/** None: a conversation waits for nothing. */
export function conversationDeadlines(): Deadline<ConversationEvent>[] {
  return [];
}
