import type { RunSnapshot } from '../../../machines/run/chart.ts';
import { isTerminalEvent, type RunCreated } from '../../../machines/run/context.ts';
import { requestNow } from '../../../machines/run/turns.ts';
import { stateName } from '../../../machines/step.ts';
import type { Config } from '../../config/config.ts';
import { withoutNull } from '../../contract/check.ts';
import type {
  ConversationListQuery,
  ConversationPage,
  RequestSource,
  RunHead,
  RunInput,
  RunListQuery,
  RunPage,
  RunRecord,
  RunRequestRecord,
  RunSearchQuery,
  SearchPage,
  ToolNarrowing,
} from '../../contract/contract.ts';
import type { RunRequest } from '../../contract/messages/parts.ts';
import { AS_PROMPT, type Reading } from '../../contract/reading.ts';
import type { ConversationUsage } from '../../contract/usage.ts';
import { hasCode, SvcError } from '../../errors.ts';
import { keepsContent } from '../../kernel/content.ts';
import type { EventPages, EventSlice, Sized } from '../../kernel/event-pages.ts';
import { followStream, type RunFollowing } from '../../kernel/feed.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { type EventStore, type RunRow, toEvent } from '../../kernel/store/port.ts';
import { type DaemonKey, isRun, type RunKey } from '../../kernel/stream.ts';
import type { ToolServers } from '../../ports/tools.ts';
import { conversationPage } from '../conversations/conversation-page.ts';
import { Conversations } from '../conversations/conversations.ts';
import { conversationUsage, findConversation } from '../conversations/find-conversation.ts';
import { identityOf, MadeConversations } from '../conversations/made-conversations.ts';
import { rejectWhenLate, rejectWhenStalled } from '../disk/refuse-when-stalled.ts';
import { readsNot } from '../embeddings/embeddings.ts';
import type { Placement } from '../placement.ts';
import { HOME, type Principal } from '../principal/principal.ts';
import type { Providers } from '../providers/providers.ts';
import type { Budget } from '../spending/budget.ts';
import { Acceptance } from './acceptance.ts';
import { findRun, namesIn } from './find.ts';
import { isMade } from './ids.ts';
import { Digests, Keys } from './keys.ts';
import { runRecord } from './record.ts';
import { type RecordBytes, Records } from './record-bytes.ts';
import { type Removal, removeRun } from './remove.ts';
import { requestOf } from './route.ts';
import { cutOff, errorOfRun, otherApi, runKey, runRemovedError, unknownRun } from './run-errors.ts';
import { runPage } from './run-page.ts';
import type { Scheduler } from './scheduler.ts';
import { checkSchemas } from './schemas.ts';
import { searchRuns } from './search.ts';
import { estimatedTokens } from './usage-of.ts';

export interface RunsOptions {
  kernel: Kernel;
  store: EventStore;
  config: Config;
  providers: Providers;
  budget: Budget;
  scheduler: Scheduler;
  pages: EventPages;
  /** Stream of this boot's daemon machine. */
  daemon: DaemonKey;
  /** The key for digests of this home. */
  secret: string;
  placement: Placement;
  servers: Pick<ToolServers, 'tools' | 'policy'>;
}

interface TokenCount {
  input_tokens: number;
  uncounted: SvcError | null;
}
type PromptArgs = [choice: RunInput, signal: AbortSignal, narrowings?: readonly ToolNarrowing[]];

/**
 * Starts, reads, follows and cancels runs. It owns no run: active ones are in the kernel, finished
 * ones in the store.
 */
export class Runs {
  private readonly options: RunsOptions;
  private readonly keys: Keys;
  private readonly records: Records;
  private readonly acceptance: Acceptance;
  private readonly joinable: Conversations;
  readonly conversations: Pick<Conversations, 'peek'>;
  readonly made: Omit<
    Pick<MadeConversations, keyof MadeConversations>,
    'join' | 'titleOf' | 'check'
  >;
  private readonly madeHere: Pick<MadeConversations, 'titleOf' | 'check'>;

  constructor(options: RunsOptions) {
    this.options = options;
    const digests = new Digests(options.secret, keepsContent(options.config.history));
    this.keys = new Keys(options.store, digests, options.placement);
    this.records = new Records(options.kernel, options.store);
    this.joinable = new Conversations({
      store: options.store,
      config: options.config,
      placement: options.placement,
      requestOf: (run_id) => this.readRequest(run_id),
    });
    const made = new MadeConversations({
      ...options,
      conversations: this.joinable,
      head: (run_id) => this.head(run_id),
    });
    this.conversations = this.joinable;
    this.made = made;
    this.madeHere = made;
    this.acceptance = new Acceptance({ ...options, digests, conversations: this.joinable, made });
  }

  /**
   * Starts a run and resolves when it is durable. With a known key, it is the run of that key.
   * Throws idempotency_conflict, busy, not_ready, daemon_stopping, store_full, store_stalled,
   * run_unconfirmed, and the errors of `checkSchemas` and `chooseRoute`.
   */
  async start(
    input: RunInput,
    client: string,
    source: RequestSource = {},
    by: Principal = HOME,
  ): Promise<RunRecord> {
    const { kernel } = this.options;
    await checkSchemas(input);
    const begin = (run_id?: RunKey) => this.acceptance.begin(input, { client, source, by }, run_id);
    if (input.idempotency_key == null) return this.get(await begin());
    if (!kernel.isOpen) throw new SvcError('not_ready');
    const run = await this.get(
      await this.keys.runOfKey(by.name, input.idempotency_key, identityOf(input, source), begin),
    );
    if (run.asked_as !== source.asked_as?.api) throw otherApi(run);
    return run;
  }

  /**
   * The tokens of a prompt with all its tools. `uncounted`: why the provider cannot count them, so
   * that they are estimated. Throws the errors of `start` and of the provider.
   */
  async countTokens(...asked: PromptArgs): Promise<TokenCount> {
    const request = await this.firstRequestOf(...asked);
    const port = this.options.providers.portFor(request);
    const message = `The provider ${request.provider} cannot count the tokens of a prompt.`;
    try {
      if (port?.countTokens === undefined)
        throw new SvcError('capability_missing', message, { param: 'model' });
      return { input_tokens: await port.countTokens(request, asked[1]), uncounted: null };
    } catch (error) {
      if (!hasCode(error, 'capability_missing')) throw error;
      return { input_tokens: estimatedTokens(request), uncounted: error };
    }
  }

  /** The prompt of a local model, as it would be computed. Throws as `countTokens` does. */
  async readPrompt(...asked: PromptArgs): Promise<Reading> {
    const request = await this.firstRequestOf(...asked);
    const port = this.options.providers.portFor(request);
    if (port?.read === undefined) throw readsNot(request.provider);
    return port.read(request.model, { of: request, ...AS_PROMPT, top: null }, asked[1]);
  }

  /** The first request that the provider would get. */
  private async firstRequestOf(
    ...[choice, signal, narrowings = []]: PromptArgs
  ): Promise<RunRequest> {
    await checkSchemas(choice);
    const input = await this.acceptance.completeInput(choice, narrowings, signal);
    const [first] = this.acceptance.targets(input);
    const request = requestOf(input, first, this.options.providers.portFor(first)?.returns);
    return requestNow({ request, turns: [], calls: [] });
  }

  /** The error of a run that ended without an answer, as it is now. Throws as `get` does. */
  failure = async (run_id: string): Promise<SvcError | null> =>
    errorOfRun(await this.get(run_id), this.options.kernel.clock.now());

  /** Without the long lists of the request. Throws as `get` does. */
  answer(run_id: string): Promise<RunRecord> {
    return this.get(run_id, 'answer');
  }

  /** Throws run_unknown, not_ready, lease_lost, store_stalled. */
  async get(run_id: string, only?: 'answer'): Promise<RunRecord> {
    const { kernel, scheduler, store, placement } = this.options;
    const key = runKey(run_id);
    if (kernel.instances.has(key)) await placement.confirm();
    const instance = kernel.instance(key);
    if (instance !== undefined && placement.isCurrent(instance))
      return runRecord(instance.snapshot, instance.seq, scheduler.position(run_id));
    if (!kernel.isOpen) throw new SvcError('not_ready');
    const row = await store.getRun(run_id, only);
    if (row === null) throw unknownRun(run_id);
    return this.fromRow(row);
  }

  /** The record for a client. A finished run comes as JSON bytes that clients share. */
  async show(run_id: string): Promise<RunRecord | RecordBytes> {
    return (await this.records.read(run_id)) ?? this.get(run_id);
  }

  /** The id of a run that is written as `last` or by its beginning. Throws run_ambiguous. */
  find(written: string, asked_by?: string): Promise<string> {
    return findRun(namesIn(this.options.store, { asked_by }), written);
  }

  /** The name of the token that started a run. Null: the home did, or there is no such run. */
  async askerOf(run_id: string): Promise<string | null> {
    const { kernel, store } = this.options;
    if (!isRun(run_id)) return null;
    const instance = kernel.instance(run_id);
    if (instance !== undefined) return instance.snapshot.context.asked_by;
    if (!kernel.isOpen) throw new SvcError('not_ready');
    return store.askerOf(run_id);
  }

  /** The request of the run. Without messages if the log does not keep them. */
  readRequest(run_id: string): Promise<RunRequestRecord> {
    return readRunRequest(this.options, run_id);
  }

  /** The position and end of a run, however large it is. Throws run_unknown, not_ready. */
  async head(run_id: string): Promise<RunHead> {
    const { kernel, store } = this.options;
    const instance = kernel.instance(runKey(run_id));
    if (instance !== undefined) {
      const { snapshot, seq } = instance;
      return { state: stateName(snapshot), finished: snapshot.status === 'done', seq };
    }
    if (!kernel.isOpen) throw new SvcError('not_ready');
    const head = await store.runHead(run_id);
    if (head === null) throw unknownRun(run_id);
    if (head.finished) return head;
    await this.options.placement.awaitAbsent(run_id);
    return kernel.instance(runKey(run_id)) === undefined ? head : this.head(run_id);
  }

  /** Position of the last event of the log. Throws store_stalled. */
  lastSeq(): Promise<number> {
    return this.options.placement.elsewhere.lastSeq();
  }

  /** Finished runs by the words of their prompts and answers. Throws invalid_request. */
  search(query: RunSearchQuery, asked_by?: string): Promise<SearchPage> {
    return searchRuns(
      this.options.store,
      withoutNull({ ...query, asked_by }),
      this.options.config.limits,
    );
  }

  /** `asked_by`: only runs of the token of this name. Throws not_ready, run_unknown. */
  async list(query: RunListQuery, asked_by?: string): Promise<RunPage> {
    return runPage(this.options, await this.toStoreQuery(query, asked_by), (row) =>
      this.readWhole(row),
    );
  }

  /** The conversations, that with the newest run first. Throws as `list` does. */
  async listConversations(
    query: ConversationListQuery,
    asked_by?: string,
  ): Promise<ConversationPage> {
    const found = await this.toStoreQuery(query, asked_by);
    return conversationPage(this.options, found, {
      wholeOf: (row) => this.readWhole(row),
      titleOf: (id) => this.madeHere.titleOf(id),
    });
  }

  /** The query of the store. Throws not_ready, run_unknown. */
  private async toStoreQuery<Q extends Pick<RunListQuery, 'conversation'>>(
    query: Q,
    asked_by?: string,
  ): Promise<Q & { asked_by?: string }> {
    const { kernel, store } = this.options;
    if (!kernel.isOpen) throw new SvcError('not_ready');
    const own = withoutNull({ ...query, asked_by }) as Q & { asked_by?: string };
    const { conversation } = query;
    if (conversation === undefined) return own;
    return { ...own, conversation: await findConversation(store, conversation, { asked_by }) };
  }

  private async readWhole(row: RunRow): Promise<RunRecord> {
    return row.record === null ? this.get(row.run_id) : this.fromRow(row);
  }

  /** The usage of the ended runs of a conversation. Throws conversation_unknown, run_unknown. */
  async usageOf(id: string): Promise<ConversationUsage> {
    if (isMade(id)) await this.madeHere.check(id);
    if (!this.options.kernel.isOpen) throw new SvcError('not_ready');
    return conversationUsage(this.options.store, id);
  }

  /**
   * The run's events from `from_seq` to its terminal event. Ends early if the signal aborts. Throws
   * run_unknown for a run that is removed meanwhile, and the errors of `cutOff`.
   */
  async *follow<B extends Sized>(
    run_id: string,
    options: RunFollowing<B>,
  ): AsyncIterable<EventSlice<B>> {
    const { kernel, store, pages, placement } = this.options;
    await this.head(run_id);
    const isLast = (event: { type: string }) => isTerminalEvent(event.type);
    const key = runKey(run_id);
    const sources = { kernel, store, pages, elsewhere: placement.elsewhere };
    const over = yield* followStream(sources, key, { ...options, isLast });
    if (over || options.signal.aborted) return;
    if (kernel.closed) throw cutOff(kernel.snapshot(key));
    if ((await store.runHead(run_id)) === null) throw runRemovedError(run_id);
  }

  /** Resolves when the work has stopped. A finished run stays as it is. */
  async cancel(run_id: string, by: string): Promise<RunRecord> {
    const { kernel } = this.options;
    const key = runKey(run_id);
    return rejectWhenLate(kernel, async () => {
      if (kernel.instance(key) === undefined) await this.options.placement.cancel(key, by);
      await kernel.tryAppend(key, { type: 'run.cancel_requested', by });
      await kernel
        .waitFor(key, ({ status }) => status !== 'active')
        .catch((cause: unknown) => {
          const message = 'The daemon stopped before the work of the run stopped.';
          throw new SvcError('daemon_stopping', message, { cause });
        });
      return this.get(run_id);
    });
  }

  /**
   * Cancels the unfinished runs of a token on every daemon, or those of this home (null). Resolves
   * with their number when their work has stopped.
   */
  cancelAll(asked_by: string | null, by: string): Promise<number> {
    return cancelAll(this.options, asked_by, (run_id) => this.cancel(run_id, by));
  }

  /**
   * Removes a finished run from the log. Throws run_unknown, run_unfinished, run_continued,
   * conversation_busy.
   */
  async remove(run_id: string): Promise<Removal> {
    const { options, joinable: conversations } = this;
    const sources = { ...options, conversations, head: (id: string) => this.head(id) };
    return rejectWhenStalled(options.kernel, () => removeRun(sources, run_id));
  }

  private async fromRow(row: RunRow): Promise<RunRecord> {
    if (row.record !== null) return row.record as unknown as RunRecord;
    return this.options.placement.record(row.run_id);
  }
}

/**
 * The request of a run, with its images. The log may lack the texts: then the request has no
 * messages. Throws run_unknown, not_ready.
 */
export async function readRunRequest(
  { kernel, store }: { kernel: Kernel; store: Pick<EventStore, 'readStream'> },
  run_id: string,
): Promise<RunRequestRecord> {
  if (!isRun(run_id)) throw unknownRun(run_id);
  const instance = kernel.instance(run_id);
  if (instance !== undefined) {
    const { request, asked_as, metadata, created_at } = instance.snapshot.context;
    return { request, asked_as, metadata, created_at };
  }
  if (!kernel.isOpen) throw new SvcError('not_ready');
  const [first] = await store.readStream(run_id, 1, 1);
  if (first === undefined) throw unknownRun(run_id);
  const { request, asked_as = null, metadata = null, at } = toEvent(first) as RunCreated;
  return { request, asked_as, metadata, created_at: at };
}

/**
 * Cancels the unfinished runs of an asker. Resolves with the number of those that it cancelled. A
 * run of an absent daemon ends later, and is not counted.
 */
async function cancelAll(
  { kernel, placement, config }: Pick<RunsOptions, 'kernel' | 'placement' | 'config'>,
  asked_by: string | null,
  cancel: (run_id: string) => Promise<RunRecord>,
): Promise<number> {
  await placement.whenRecovered();
  const here = [...kernel.instances.values()].flatMap(({ stream, tail }) =>
    isRun(stream) && (tail as RunSnapshot).context.asked_by === asked_by ? stream : [],
  );
  const limit = config.limits.queue_runs;
  // The homes of two daemons are two askers.
  const elsewhere = asked_by === null ? [] : await placement.runsElsewhere(asked_by, limit);
  const ids = new Set([...here, ...elsewhere]);
  let cancelled = 0;
  const ends = [...ids].map(async (run_id) => {
    if ((await cancel(run_id)).state === 'cancelled') cancelled += 1;
  });
  const late = Promise.withResolvers<void>();
  const endWait = kernel.clock.after(2 * config.limits.cancel_grace_ms, () => late.resolve());
  await Promise.race([Promise.allSettled(ends), late.promise]);
  endWait();
  return cancelled;
}
