import { type SnapshotFrom, setup } from 'xstate';
import type { EventOf } from '../src/contract/events.ts';
import type { Message } from '../src/contract/messages/parts.ts';
import { type Meta, withRules } from './machine.ts';

/**
 * A conversation that a program made before its first run.
 *
 * 1. It has what the program added, and which runs belong to it. What they say is in their own
 *    streams, so a run that is removed is gone from here too.
 * 2. A run follows all entries before it: another number of entries is refused.
 * 3. A deleted conversation takes nothing more. Its runs stay in the history.
 */

/** How a program wrote a call that has another form in a message. */
export interface SentName {
  readonly name: string;
  readonly namespace?: string;
  readonly custom?: true;
  /** The tool server that carried it out. */
  readonly server?: string;
}

/** What a program added at one time. */
export interface Added {
  readonly messages: readonly Message[];
  /** By the id of the call. */
  readonly sent?: Readonly<Record<string, SentName>>;
}

export type ConversationCreated = EventOf<
  'conversation.created',
  Added & {
    conversation_id: string;
    metadata: Readonly<Record<string, string>>;
    /** Name of the token that the request was sent with. Absent: the token of the home. */
    asked_by?: string;
  }
>;

export type ConversationEvent =
  | EventOf<'conversation.items_added', Added>
  /** Recorded with the acceptance of the run. `place`: how many entries come before it. */
  | EventOf<'conversation.run_added', { run_id: string; place: number }>
  /** `item`: the id of an item that a program added, or that a run has. */
  | EventOf<'conversation.item_removed', { item: string }>
  | EventOf<'conversation.described', { metadata: Readonly<Record<string, string>> }>
  | EventOf<'conversation.deleted'>;

/** What a program added at one time, or a run. */
export type ConversationEntry = Added | { readonly run_id: string };

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

const chart = setup({
  types: {} as {
    meta: Meta;
    context: ConversationContext;
    events: ConversationEvent;
    input: ConversationCreated;
  },
  guards: {
    isNext: ({ context, event }) =>
      event.type === 'conversation.run_added' && event.place === context.entries.length,
  },
}).createMachine({
  id: 'conversation',
  context: ({ input }) => ({
    conversation_id: input.conversation_id,
    asked_by: input.asked_by ?? null,
    created_at: input.at,
    metadata: input.metadata,
    entries: input.messages.length === 0 ? [] : [addedBy(input)],
    removed: [],
    ended_at: null,
  }),
  initial: 'open',
  states: {
    open: {
      meta: { says: ['good', 'Runs can join it.'] },
      tags: ['stable'],
      on: {
        'conversation.items_added': {},
        'conversation.run_added': { guard: 'isNext' },
        'conversation.item_removed': {},
        'conversation.described': {},
        'conversation.deleted': 'deleted',
      },
    },
    deleted: { meta: { says: ['plain', 'It is deleted.'] }, type: 'final' },
  },
});

export type ConversationSnapshot = SnapshotFrom<typeof chart>;

export const conversationMachine = withRules(chart, { evolve });

function evolve(
  { entries, removed }: ConversationContext,
  event: ConversationEvent,
): Partial<ConversationContext> {
  switch (event.type) {
    case 'conversation.items_added':
      return { entries: [...entries, addedBy(event)] };
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

function addedBy({ messages, sent }: Added): Added {
  return sent === undefined ? { messages } : { messages, sent };
}
