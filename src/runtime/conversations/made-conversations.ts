import type {
  Added,
  ConversationContext,
  ConversationEvent,
} from '../../../machines/conversation.ts';
import type { NewEvent } from '../../../machines/events.ts';
import type { Config } from '../../config/config.ts';
import type { RequestSource, RunHead, RunInput } from '../../contract/contract.ts';
import { textBytes } from '../../contract/inputs.ts';
import type { Message } from '../../contract/messages/parts.ts';
import { hasCode, SvcError } from '../../errors.ts';
import { keepsContent } from '../../kernel/content.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { EventStore } from '../../kernel/store/port.ts';
import {
  type ConversationKey,
  isRun,
  type Proposal,
  type RunKey,
  type SnapshotOf,
  stream,
} from '../../kernel/stream.ts';
import { rejectWhenStalled } from '../disk/refuse-when-stalled.ts';
import { HOME, type Principal } from '../principal/principal.ts';
import { isMade, newConversationId, newRunId } from '../runs/ids.ts';
import { conversationChangedError, unknownConversation } from '../runs/run-errors.ts';
import { type Conversations, conversationBusyError } from './conversations.ts';
import { FoldedConversations } from './folded.ts';

/**
 * Conversations that a program makes before their first run, and the metadata of any conversation.
 *
 * 1. All of it is in the log. A machine is in memory only during a change.
 * 2. Changes and runs of one conversation keep each other out, also in a fleet.
 * 3. A log that does not keep texts has no such conversations, since it lacks their messages.
 * 4. A conversation that a run began has a stream only when it has metadata. No run is in there.
 */
export class MadeConversations {
  private readonly options: {
    kernel: Kernel;
    store: Pick<EventStore, 'readStream' | 'lastEvent' | 'runHead' | 'askerOf'>;
    config: Config;
    conversations: Pick<Conversations, 'runExclusive'>;
    head(run_id: string): Promise<RunHead>;
  };

  private readonly folded: FoldedConversations;

  constructor(options: MadeConversations['options']) {
    this.options = options;
    this.folded = new FoldedConversations(options.store);
  }

  /**
   * Throws content_not_kept, prompt_not_text, prompt_too_large, not_ready, store_full,
   * store_stalled.
   */
  async create(
    { metadata, ...added }: Pick<ConversationContext, 'metadata'> & Added,
    { name }: Pick<Principal, 'name'> = HOME,
  ): Promise<ConversationContext> {
    this.checkKept();
    this.checkSize(added.messages);
    const conversation_id = newConversationId();
    const key = stream.conversation(conversation_id);
    const created = { type: 'conversation.created', conversation_id, metadata, ...added } as const;
    return this.forgetAfter(key, async () => {
      const { kernel } = this.options;
      await rejectWhenStalled(kernel, () =>
        kernel.append([
          { stream: key, event: name === null ? created : { ...created, asked_by: name } },
        ]),
      );
      return contextOf(kernel.snapshot(key), conversation_id);
    });
  }

  /** Throws conversation_unknown, not_ready. */
  async get(id: string): Promise<ConversationContext> {
    if (!this.options.kernel.isOpen) throw new SvcError('not_ready');
    if (!isMade(id)) throw unknownConversation(id);
    const instance = await this.folded.fold(stream.conversation(id));
    return contextOf(instance?.snapshot, id);
  }

  /**
   * Each change resolves with the state after it. Throws conversation_unknown, conversation_busy,
   * content_not_kept, store_full, store_stalled. `add` also throws as `create` does.
   */
  add(id: string, added: Added): Promise<ConversationContext> {
    return this.change(id, { type: 'conversation.items_added', ...added }, ({ entries }) =>
      this.checkSize([
        ...entries.flatMap((entry) => ('messages' in entry ? entry.messages : [])),
        ...added.messages,
      ]),
    );
  }

  removeItem(id: string, item: string): Promise<ConversationContext> {
    return this.change(id, { type: 'conversation.item_removed', item });
  }

  describe(id: string, metadata: ConversationContext['metadata']): Promise<ConversationContext> {
    return isRun(id)
      ? this.describeBegun(id, metadata)
      : this.change(id, { type: 'conversation.described', metadata });
  }

  /** Null: it has no title. Reads two events at most: a conversation may have thousands. */
  async titleOf(id: string): Promise<string | null> {
    const { store } = this.options;
    const key = stream.conversation(id);
    if (isMade(id) && !(await this.isThere(id))) return null;
    const event = await store.lastEvent(key, ['conversation.created', 'conversation.described']);
    return (event?.data as Partial<ConversationContext> | undefined)?.metadata?.title ?? null;
  }

  /** Throws conversation_unknown, not_ready. */
  async check(id: string): Promise<void> {
    if (!this.options.kernel.isOpen) throw new SvcError('not_ready');
    if (!isMade(id) || !(await this.isThere(id))) throw unknownConversation(id);
  }

  private async isThere(id: string): Promise<boolean> {
    const last = await this.options.store.lastEvent(stream.conversation(id));
    return last !== null && last.type !== 'conversation.deleted';
  }

  /** The first change of its metadata begins the stream. */
  private async describeBegun(
    run_id: RunKey,
    metadata: ConversationContext['metadata'],
  ): Promise<ConversationContext> {
    const { kernel, conversations, store } = this.options;
    this.checkKept();
    if (!kernel.isOpen) throw new SvcError('not_ready');
    if ((await store.runHead(run_id))?.conversation !== run_id) throw unknownConversation(run_id);
    const asked_by = await store.askerOf(run_id);
    const key = stream.conversation(run_id);
    const begin = async () => {
      const isNew = (await kernel.load(key)) === undefined;
      this.checkCount(key);
      const created = { conversation_id: run_id, metadata, messages: [] };
      const who = asked_by === null ? {} : { asked_by };
      const event: Proposal['event'] & { type: `conversation.${string}` } = isNew
        ? { type: 'conversation.created', ...created, ...who }
        : { type: 'conversation.described', metadata };
      await rejectWhenStalled(kernel, () => kernel.append([{ stream: key, event }]));
      return contextOf(kernel.snapshot(key), run_id);
    };
    return conversations.runExclusive(run_id, () => this.forgetAfter(key, begin));
  }

  delete(id: string): Promise<ConversationContext> {
    return this.change(id, { type: 'conversation.deleted' });
  }

  private change(
    id: string,
    event: NewEvent<ConversationEvent>,
    check: (before: ConversationContext) => void = () => {},
  ): Promise<ConversationContext> {
    const { kernel } = this.options;
    return this.enter(id, newRunId(), async (key, before) => {
      if (event.type !== 'conversation.deleted') this.checkCount(key);
      check(before);
      await rejectWhenStalled(kernel, () => kernel.append([{ stream: key, event }]));
      return contextOf(kernel.snapshot(key), id, { isDeleted: true });
    });
  }

  /**
   * Calls `accept` with the event that adds the run, for the transaction of its acceptance. A
   * conversation has one run at a time. Throws as a change does.
   */
  join<T>(
    { conversation, after }: NonNullable<RequestSource['joins']>,
    run_id: RunKey,
    accept: (entry: Proposal, made: ConversationContext) => Promise<T>,
  ): Promise<T> {
    return this.enter(conversation, run_id, async (stream, made) => {
      const { entries } = made;
      this.checkCount(stream);
      const last = entries.at(-1);
      if (last !== undefined && 'run_id' in last && !(await this.isOver(last.run_id)))
        throw conversationBusyError(conversation, last.run_id);
      if (entries.length !== after) throw conversationChangedError(conversation);
      const event = { type: 'conversation.run_added', run_id, place: after } as const;
      return accept({ stream, event }, made);
    });
  }

  /** A run that was removed is over. */
  private async isOver(run_id: string): Promise<boolean> {
    try {
      return (await this.options.head(run_id)).finished;
    } catch (error) {
      if (hasCode(error, 'run_unknown')) return true;
      throw error;
    }
  }

  /** Calls `work` with the state, and keeps all others out meanwhile. */
  private enter<T>(
    id: string,
    run_id: RunKey,
    work: (key: ConversationKey, before: ConversationContext) => Promise<T>,
  ): Promise<T> {
    this.checkKept();
    if (!isMade(id)) throw unknownConversation(id);
    const { kernel, conversations } = this.options;
    const key = stream.conversation(id);
    return new Promise((resolve, reject) => {
      const begin = () =>
        this.forgetAfter(key, async () => {
          const instance = await this.folded.fold(key);
          if (instance !== undefined) kernel.adopt(instance);
          const before = contextOf(instance?.snapshot, id);
          // A disk that stalls ends the client's wait, and not the conversation's.
          return work(key, before).catch((error: unknown) => {
            reject(error);
            throw error;
          });
        });
      conversations.runExclusive(id, begin, run_id).then(resolve, reject);
    });
  }

  /** The machine leaves the memory when its events are durable. */
  private async forgetAfter<T>(key: ConversationKey, work: () => Promise<T>): Promise<T> {
    const { kernel } = this.options;
    try {
      return await work();
    } finally {
      const { tailVersion = 0 } = kernel.instance(key) ?? {};
      const isDurable = () => (kernel.instance(key)?.version ?? tailVersion) >= tailVersion;
      await kernel.waitFor(key, isDurable).catch(() => {});
      kernel.forget(key);
    }
  }

  /** Each request reads all events of the conversation. */
  private checkCount(key: ConversationKey): void {
    const most = this.options.config.limits.conversation_entries;
    if ((this.options.kernel.instance(key)?.version ?? 0) < most) return;
    throw new SvcError(
      'invalid_request',
      `The conversation has ${most} changes, as many as the daemon takes.`,
      { param: 'conversation', hint: 'Begin a new one with its last items.' },
    );
  }

  /** A run cannot take more, and each request reads all items that programs added. */
  private checkSize(messages: readonly Message[]): void {
    const most = this.options.config.limits.prompt_bytes;
    const bytes = textBytes({ messages });
    if (bytes <= most) return;
    throw new SvcError(
      'prompt_too_large',
      `With these items, programs added ${bytes} bytes; a conversation takes ${most}.`,
      { param: 'items', hint: 'Begin a new one, or raise the limit prompt_bytes.' },
    );
  }

  private checkKept(): void {
    if (keepsContent(this.options.config.history)) return;
    throw new SvcError(
      'content_not_kept',
      'The log does not keep what is said, so it has no conversations.',
      { param: 'conversation' },
    );
  }
}

function contextOf(
  snapshot: SnapshotOf<ConversationKey> | undefined,
  id: string,
  { isDeleted = false } = {},
): ConversationContext {
  if (snapshot === undefined || (snapshot.status === 'done' && !isDeleted))
    throw unknownConversation(id);
  return snapshot.context;
}

/**
 * The request as the client sent it: the conversation may have grown since an equal request.
 * Another number of answers makes another request.
 */
export function identityOf(
  input: RunInput,
  { joins, choices, narrowings }: RequestSource,
): RunInput {
  const more = choices === undefined ? {} : { choices };
  const fullInput = { ...input, ...more, ...(narrowings === undefined ? {} : { narrowings }) };
  if (joins === undefined) return fullInput;
  const { conversation, messages } = joins;
  return {
    ...fullInput,
    conversation,
    messages: [...messages] as NonNullable<RunInput['messages']>,
  };
}
