import { setNewest } from '../../async/newest.ts';
import { foldStream } from '../../kernel/fold.ts';
import { Instance, sizeInMemory } from '../../kernel/instance.ts';
import type { EventStore } from '../../kernel/store/port.ts';
import type { ConversationKey, SnapshotOf } from '../../kernel/stream.ts';
import { FOLDED_CHARACTERS, FOLDED_CONVERSATIONS } from '../../limits.ts';

type Conversation = Instance<SnapshotOf<ConversationKey>>;

/**
 * Folds conversations. It owns the states of the last ones, so that a turn of a long one folds only
 * new events.
 *
 * 1. A state is used only if the log still has its last event. Other daemons may write to the log,
 *    and remove from it.
 * 2. States are bounded in number, and in the texts that programs added.
 */
export class FoldedConversations {
  private readonly store: Pick<EventStore, 'readStream'>;
  private readonly known = new Map<string, Known>();

  constructor(store: Pick<EventStore, 'readStream'>) {
    this.store = store;
  }

  /** A new instance, which the caller may change. Undefined if the log has no such conversation. */
  async fold(key: ConversationKey): Promise<Conversation | undefined> {
    const start = await this.startOf(key);
    const folded = await foldStream(this.store, key, Number.POSITIVE_INFINITY, start);
    this.known.delete(key);
    if (folded === undefined) return undefined;
    const { boot_id, snapshot, version, seq } = folded as Conversation;
    if (sizeInMemory(snapshot.context) <= FOLDED_CHARACTERS)
      setNewest(this.known, key, { boot_id, snapshot, version, seq }, FOLDED_CONVERSATIONS);
    return folded as Conversation;
  }

  private async startOf(key: ConversationKey): Promise<Conversation | undefined> {
    const known = this.known.get(key);
    if (known === undefined) return undefined;
    const { boot_id, snapshot, version, seq } = known;
    const [last] = await this.store.readStream(key, version, 1);
    if (last?.seq !== seq) return undefined;
    const start = new Instance(key, boot_id, snapshot, version - 1);
    start.commit(last, snapshot);
    start.tailVersion = version;
    return start;
  }
}

interface Known {
  boot_id: string;
  snapshot: SnapshotOf<ConversationKey>;
  version: number;
  seq: number;
}
