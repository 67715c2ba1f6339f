import type { RunSnapshot } from '../../../machines/run/chart.ts';
import { SystemClock } from '../../async/clock.ts';
import type { Config } from '../../config/config.ts';
import type {
  RunListQuery,
  RunPage,
  RunRecord,
  RunSearchQuery,
  SearchPage,
} from '../../contract/contract.ts';
import type { ConversationUsage, UsageInput, UsageRecord } from '../../contract/usage.ts';
import { foldStream } from '../../kernel/fold.ts';
import type { EventStore, RunRow } from '../../kernel/store/port.ts';
import {
  conversationUsage,
  findConversation,
} from '../../runtime/conversations/find-conversation.ts';
import { findRun, namesIn } from '../../runtime/runs/find.ts';
import { runRecord } from '../../runtime/runs/record.ts';
import { unknownRun } from '../../runtime/runs/run-errors.ts';
import { runPage } from '../../runtime/runs/run-page.ts';
import { searchRuns } from '../../runtime/runs/search.ts';
import { Budget } from '../../runtime/spending/budget.ts';
import { usageReport } from '../usage-report.ts';

/** The reads from a log. */
export type StoredReads = Pick<
  EventStore,
  | 'askerOf'
  | 'conversationUsage'
  | 'getRun'
  | 'lastRun'
  | 'listRuns'
  | 'readStream'
  | 'runHead'
  | 'runsNamed'
  | 'searchRuns'
  | 'unindexedRuns'
  | 'usage'
>;

/**
 * Reads the runs of a log without its daemon, in the records that the daemon answers. A run that
 * has not ended is as the log left it.
 */
export class StoredRuns {
  private readonly store: StoredReads;
  private readonly config: Pick<Config, 'limits'>;

  constructor(store: StoredReads, config: Pick<Config, 'limits'>) {
    this.store = store;
    this.config = config;
  }

  /** Throws run_unknown, run_ambiguous. */
  async get(written: string): Promise<RunRecord> {
    const id = await findRun(namesIn(this.store), written);
    const row = await this.store.getRun(id);
    if (row === null) throw unknownRun(id);
    return this.readWhole(row);
  }

  async list({ conversation, ...query }: RunListQuery): Promise<RunPage> {
    const found =
      conversation === undefined
        ? query
        : { ...query, conversation: await findConversation(this.store, conversation) };
    return runPage({ store: this.store, config: this.config }, found, (row) => this.readWhole(row));
  }

  search(query: RunSearchQuery): Promise<SearchPage> {
    return searchRuns(this.store, query, this.config.limits);
  }

  /** The usage, with the prices of this configuration. */
  usage(query: UsageInput, config: Config): Promise<UsageRecord> {
    const { store } = this;
    const budget = new Budget({ store, config, kernel: { clock: new SystemClock() } });
    return usageReport({ store, config, budget }, query);
  }

  conversationUsage(id: string): Promise<ConversationUsage> {
    return conversationUsage(this.store, id);
  }

  private async readWhole({ run_id, record }: RunRow): Promise<RunRecord> {
    if (record !== null) return record as unknown as RunRecord;
    const instance = await foldStream(this.store, run_id);
    if (instance === undefined) throw unknownRun(run_id);
    return runRecord(instance.snapshot as RunSnapshot, instance.seq);
  }
}
