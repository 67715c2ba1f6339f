import type { ConversationCreated, ConversationEvent } from '../../../machines/conversation.ts';
import { type ConversationSnapshot, conversationMachine } from '../../../machines/conversation.ts';
import type { Message } from '../../../src/contract/messages/parts.ts';
import { type Model, model, NOW } from './model.ts';

const messages: Message[] = [{ role: 'user', content: [{ type: 'text', text: 'Hi' }] }];
const created: ConversationCreated = {
  type: 'conversation.created',
  at: NOW - 1000,
  conversation_id: 'conv_1',
  metadata: { team: 'a' },
  messages,
};
/** Entries up to which states differ. */
const ENTRIES = 3;

export function conversationModel(): Model {
  return model<ConversationSnapshot>({
    name: 'conversation',
    machine: conversationMachine,
    created,
    samples: (): ConversationEvent[] => [
      { type: 'conversation.items_added', at: NOW, messages },
      ...[0, 1, 2, 3].map(
        (place): ConversationEvent => ({
          type: 'conversation.run_added',
          at: NOW,
          run_id: `run_${place}`,
          place,
        }),
      ),
      { type: 'conversation.item_removed', at: NOW, item: 'in_1_0' },
      { type: 'conversation.described', at: NOW, metadata: {} },
      { type: 'conversation.deleted', at: NOW },
    ],
    key: ({ value, context }) => JSON.stringify([value, Math.min(ENTRIES, context.entries.length)]),
    stop: { type: 'conversation.deleted', at: NOW },
    isOver: ({ status }) => status === 'done',
    least: { states: 4, edges: 13, refused: 9 },
  });
}
