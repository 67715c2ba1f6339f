import { BOUNDS } from '../../../machines/run/context.ts';
import { FILTER_COLUMNS } from '../../../src/kernel/store/columns.ts';
import { checkContinuity } from '../../../src/kernel/store/continuity.ts';
import type { EmbeddingUsage } from '../../../src/kernel/store/embedding-usage.ts';
import { notOpen } from '../../../src/kernel/store/failure.ts';
import { titleStream } from '../../../src/kernel/store/places.ts';
import type {
  AppendResult,
  ConversationSums,
  EventStore,
  FoundRun,
  PruneQuery,
  PruneReport,
  RunBound,
  RunHead,
  RunQuery,
  SearchQuery,
  VerifiedReport,
  VerifyReport,
} from '../../../src/kernel/store/port.ts';
import { pruneOrder, SAID, type SizedRun } from '../../../src/kernel/store/prune/order.ts';
import { mayGrow } from '../../../src/kernel/store/prune/pruner.ts';
import { oldAt } from '../../../src/kernel/store/prune/run-age.ts';
import {
  type CommitRows,
  conflict,
  type EventRow,
  fromRunData,
  type RunLine,
} from '../../../src/kernel/store/row.ts';
import { SHORT_RUN } from '../../../src/kernel/store/short-run.ts';
import type { Calls, OpenStore } from '../../../src/kernel/store/store.ts';
import { createStore, type StoredLog } from '../../../src/kernel/store/store.ts';
import type { RunUsage } from '../../../src/kernel/store/usage.ts';
import type { UsageQuery, UsageSums } from '../../../src/kernel/store/usage-sums.ts';
import { foundRun } from './found-run.ts';
import { sumUsage } from './usage-in-memory.ts';

/**
 * The event log in memory: the promises of the one on disk, except durability. Its content outlives
 * `close`.
 */
export function createMemoryStore(): EventStore {
  return createStore(accessTo(new MemoryLog()));
}

interface Recorded {
  usage?: Record<'input_tokens' | 'output_tokens', number | null> & { cached_tokens?: number };
}

/** One of the accesses to a log. It is closed at first. */
export function accessTo(log: MemoryLog): StoredLog & { assertOpen(): void } {
  let isOpen = false;
  const assertOpen = () => {
    if (!isOpen) throw notOpen();
  };
  return {
    assertOpen,
    open: async () => {
      isOpen = true;
      return log.open();
    },
    // It answers in a later turn, as the thread does.
    ask: async (method, ...args) => {
      assertOpen();
      const call = log[method] as (...args: unknown[]) => unknown;
      return call.apply(log, args) as never;
    },
    close: async () => {
      isOpen = false;
    },
  };
}

export type Line = RunLine & { accepted_seq: number };

export class MemoryLog implements Calls {
  private readonly runs = new Map<string, Line>();
  private events: EventRow[] = [];
  /** The run of each idempotency key. */
  private readonly owners = new Map<string, string | null>();
  lastSeq = 0;
  private readonly usages: RunUsage[] = [];
  private readonly embeddings: EmbeddingUsage[] = [];
  private readonly streams = new Map<string, EventRow[]>();

  open(): OpenStore {
    const boot = this.events.findLast((event) => event.type === 'daemon.boot_started');
    const report = {
      first_seq: this.events[0]?.seq ?? this.lastSeq + 1,
      last_seq: this.lastSeq,
      last_boot_id: boot?.boot_id ?? null,
      full: false,
    };
    return { report, damaged: [] };
  }

  close(): void {}

  append(rows: CommitRows): AppendResult {
    const first_seq = this.lastSeq + 1;
    checkContinuity(rows, this.lastSeq, (stream) => this.streamOf(stream).at(-1)?.version ?? 0);
    for (const [key, run_id] of this.ownersAfter(rows.runs)) this.owners.set(key, run_id);
    for (const event of rows.events) {
      this.lastSeq = event.seq;
      this.events.push(event);
      this.streams.set(event.stream, this.streamOf(event.stream));
      this.streamOf(event.stream).push(event);
    }
    for (const { usage } of rows.runs) if (usage !== null) this.usages.push(usage);
    this.embeddings.push(...rows.embeddings);
    for (const line of rows.runs)
      this.runs.set(line.run_id, {
        ...line,
        accepted_seq: this.streamOf(line.run_id)[0]?.seq ?? line.seq,
      });
    return { full: false, first_seq };
  }

  usage(query: UsageQuery): UsageSums {
    return sumUsage(this.usages, this.embeddings, query);
  }

  reserve(): boolean {
    return true;
  }

  spendReserve(): boolean {
    return false;
  }

  readStream(stream: string, fromVersion: number, limit: number): EventRow[] {
    return page(this.streamOf(stream), 'version', fromVersion, limit);
  }

  readAll(fromSeq: number, limit: number): EventRow[] {
    return page(this.events, 'seq', fromSeq, limit);
  }

  lastEvent(stream: string, types?: readonly string[]): EventRow | null {
    const isWanted = ({ type }: EventRow) => types === undefined || types.includes(type);
    return this.streamOf(stream).findLast(isWanted) ?? null;
  }

  getRun(run_id: string): string | null {
    return this.runs.get(run_id)?.data ?? null;
  }

  getRunByKey(idempotency_key: string): string | null {
    return this.getRun(this.runOfKey(idempotency_key) ?? '');
  }

  readRecord(run_id: string): Uint8Array | null {
    const line = this.runs.get(run_id);
    return line === undefined || line.finished === 0
      ? null
      : Buffer.from(JSON.stringify(fromRunData(line.data).record));
  }

  runHead(run_id: string): RunHead | null {
    const line = this.runs.get(run_id);
    if (line === undefined) return null;
    const { state, finished, seq, conversation } = line;
    return { state, finished: finished === 1, seq, conversation: conversation ?? run_id };
  }

  conversationUsage(conversation: string): ConversationSums {
    const sums = { runs: 0, input_tokens: 0, output_tokens: 0, cached_tokens: 0, unknown: 0 };
    for (const line of this.runs.values()) {
      if (line.finished === 0 || (line.conversation ?? line.run_id) !== conversation) continue;
      const { usage } = fromRunData(line.data).record as Recorded;
      if (usage === undefined) continue;
      const { input_tokens, output_tokens, cached_tokens } = usage;
      sums.runs += 1;
      sums.input_tokens += input_tokens ?? 0;
      sums.output_tokens += output_tokens ?? 0;
      sums.cached_tokens += cached_tokens ?? 0;
      if (input_tokens == null || output_tokens == null) sums.unknown += 1;
    }
    return sums;
  }

  unfinishedRuns(state?: string): string[] {
    return idsOf(
      this.oldestFirst().filter(
        (line) => line.finished === 0 && (state === undefined || line.state === state),
      ),
    );
  }

  verify(): VerifyReport {
    return { ok: true, events: this.events.length, problems: [] };
  }

  verifyPart(): { done: boolean; damaged: string[] } {
    return { done: true, damaged: [] };
  }

  verified(): VerifiedReport {
    return { seq: this.lastSeq, at: null, complete: true, problems: [], damaged: 0 };
  }

  recount(): null {
    return null;
  }

  mendRun(): boolean {
    return false;
  }

  searchRuns({ terms, before, asked_by, limit }: SearchQuery): FoundRun[] {
    const last =
      before === undefined ? Number.POSITIVE_INFINITY : (this.runs.get(before)?.accepted_seq ?? 0);
    const older = this.oldestFirst().filter(
      (line) => line.accepted_seq < last && this.isOf(line.run_id, asked_by),
    );
    return older
      .reverse()
      .flatMap(({ data }) => {
        const found = foundRun(fromRunData(data), terms);
        return found === null ? [] : [found];
      })
      .slice(0, limit);
  }

  unindexedRuns(): number {
    return 0;
  }

  streamOf(stream: string): EventRow[] {
    return this.streams.get(stream) ?? [];
  }

  runOf(run_id: string): Line | undefined {
    return this.runs.get(run_id);
  }

  runOfKey(idempotency_key: string): string | null {
    return this.owners.get(idempotency_key) ?? null;
  }

  oldestFirst(): Line[] {
    return [...this.runs.values()].sort((a, b) => a.accepted_seq - b.accepted_seq);
  }

  listRuns(query: RunQuery): string[] {
    const { limit, before, cloud, conversation, latest = false, asked_by } = query;
    const { unfinished = false, short = false } = query;
    const last =
      before === undefined ? Number.POSITIVE_INFINITY : (this.runs.get(before)?.accepted_seq ?? 0);
    const older = this.oldestFirst().filter((line) => line.accepted_seq < last);
    const newest = new Map(
      (latest ? this.oldestFirst() : []).map((line) => [
        line.conversation ?? line.run_id,
        line.run_id,
      ]),
    );
    const wanted = older.filter(
      (line) =>
        FILTER_COLUMNS.every((name) => query[name] === undefined || line[name] === query[name]) &&
        (cloud !== true || line.cloud === 1) &&
        (conversation === undefined || (line.conversation ?? line.run_id) === conversation) &&
        (!latest || newest.get(line.conversation ?? line.run_id) === line.run_id) &&
        (!unfinished || line.finished === 0) &&
        this.isOf(line.run_id, asked_by),
    );
    return wanted
      .reverse()
      .slice(0, limit)
      .map((line) => (short ? SHORT_RUN.read(line.data) : line.data));
  }

  runsNamed(prefix: string, limit: number, asked_by?: string): string[] {
    const ids = [...this.runs.keys()].filter(
      (id) => id.startsWith(prefix) && this.isOf(id, asked_by),
    );
    return ids.sort().slice(0, limit);
  }

  lastRun(origin: string | null, asked_by?: string | null): string | null {
    const last = this.oldestFirst().findLast(
      (line) => (origin === null || line.origin === origin) && this.isOf(line.run_id, asked_by),
    );
    return last?.run_id ?? null;
  }

  askerOf(run_id: string): string | null {
    const [first] = this.streamOf(run_id);
    return (JSON.parse(first?.data ?? '{}') as { asked_by?: string }).asked_by ?? null;
  }

  private isOf(run_id: string, asked_by: string | null | undefined): boolean {
    return asked_by === undefined || this.askerOf(run_id) === asked_by;
  }

  runsAt(seq: number, limit: number): string[] {
    const runs = this.oldestFirst().filter(
      (line) => line.accepted_seq <= seq && (line.finished === 0 || line.seq >= seq),
    );
    return idsOf(runs).slice(0, limit);
  }

  runBounds(boot_id: string, after: number, to: number): RunBound[] {
    return this.events
      .filter((one) => one.boot_id === boot_id && one.seq > after && one.seq <= to)
      .filter(({ type }) => BOUNDS.includes(type))
      .map(({ seq, at, type, stream: run_id }) => {
        const accepted_by = this.streamOf(run_id)[0]?.boot_id ?? null;
        return { seq, at, type, run_id, accepted_by };
      });
  }

  startedStreams(fromSeq: number, toSeq: number, limit: number): string[] {
    const first = this.events.filter(
      ({ seq, version, type }) =>
        version === 1 && type !== 'run.accepted' && seq >= fromSeq && seq <= toSeq,
    );
    return first.map(({ stream }) => stream).slice(0, limit);
  }

  prune(query: PruneQuery): PruneReport {
    const {
      before_at,
      max_bytes,
      keep_boot,
      limit,
      large_bytes = Number.POSITIVE_INFINITY,
      young_at = Number.POSITIVE_INFINITY,
    } = query;
    const before = this.events.length;
    let runs = 0;
    const isOver = (factor = 1) =>
      max_bytes !== null && this.removableBytes(keep_boot) > factor * max_bytes;
    const removeBoots = () => {
      const kept = this.oldestFirst()[0]?.accepted_seq ?? this.lastSeq;
      for (const stream of this.startedStreams(0, kept, Number.POSITIVE_INFINITY)) {
        const last = this.streamOf(stream).at(-1);
        if (last === undefined || last.seq >= kept || mayGrow(stream, last, query)) continue;
        if ((before_at !== null && last.at < before_at) || isOver()) this.removeStream(stream);
      }
    };
    const finished = this.oldestFirst().filter(
      (line) => line.finished === 1 && line.seq < this.lastSeq,
    );
    const remove = (run_id: string) => {
      this.remove(run_id);
      runs += 1;
    };
    for (const line of finished) if (runs < limit && this.isOld(line, query)) remove(line.run_id);
    removeBoots();
    const left = finished
      .filter(({ run_id }) => this.runs.has(run_id))
      .map((line) => this.sizeOf(line));
    for (const next of pruneOrder(left, { large_bytes, young_at, youngToo: () => isOver(2) })) {
      if (runs >= limit || !isOver()) break;
      if (next !== SAID) remove(next.run_id);
      removeBoots();
    }
    return {
      runs,
      events: before - this.events.length,
      more: runs >= limit,
      ...(runs < limit && isOver() ? { over: true } : {}),
    };
  }

  removeRun(run_id: string): PruneReport {
    const line = this.runs.get(run_id);
    if (line?.finished !== 1 || line.seq >= this.lastSeq)
      return { runs: 0, events: 0, more: false };
    const title = titleStream(run_id);
    const titled = this.streamOf(title);
    if (titled.at(-1)?.seq === this.lastSeq) return { runs: 0, events: 0, more: false };
    const events = this.streamOf(run_id).length + titled.length;
    this.remove(run_id);
    if (titled.length > 0) this.removeStream(title);
    return { runs: 1, events, more: false };
  }

  private remove(run_id: string): void {
    const key = this.runs.get(run_id)?.idempotency_key ?? null;
    this.removeStream(run_id);
    this.runs.delete(run_id);
    if (key !== null) this.owners.delete(key);
  }

  private isOld({ run_id, seq }: Line, { before_at, clock }: PruneQuery): boolean {
    const at = this.streamOf(run_id).at(-1)?.at ?? 0;
    if (before_at === null || at >= before_at) return false;
    const last = this.events.at(-1);
    if (clock === undefined || last === undefined) return true;
    const rules = { keep_ms: clock.now - before_at, even_since: clock.even_since };
    return (
      oldAt({ seq, at }, last, rules, (from) => this.events[firstFrom(this.events, 'seq', from)]) <=
      clock.now
    );
  }

  private sizeOf({ run_id, provider, accepted_seq, data }: Line): SizedRun {
    const events = this.streamOf(run_id);
    const bytes = events.reduce((sum, event) => sum + event.data.length, data.length);
    return { run_id, provider, accepted_seq, bytes, ended_at: events.at(-1)?.at ?? 0 };
  }

  countRuns(): { finished: number; unfinished: number } {
    const finished = [...this.runs.values()].filter((line) => line.finished === 1).length;
    return { finished, unfinished: this.runs.size - finished };
  }

  private removableBytes(keep_boot: string): number {
    const isPresent = ({ stream, boot_id }: EventRow) =>
      boot_id === keep_boot && !stream.startsWith('run_');
    const isInProgress = ({ stream }: EventRow) => this.runs.get(stream)?.finished === 0;
    return this.events.reduce(
      (size, event) => (isPresent(event) || isInProgress(event) ? size : size + event.data.length),
      0,
    );
  }

  private removeStream(stream: string): void {
    this.streams.delete(stream);
    this.events = this.events.filter((event) => event.stream !== stream);
  }

  /** The owner of each key after these rows. A key has one run at a time, also within a commit. */
  private ownersAfter(lines: readonly RunLine[]): Map<string, string | null> {
    const changed = new Map<string, string | null>();
    const held = new Map<string, string | null>();
    for (const { run_id, idempotency_key: key } of lines) {
      const before = held.get(run_id) ?? this.runs.get(run_id)?.idempotency_key ?? null;
      held.set(run_id, key);
      if (before !== null && before !== key) changed.set(before, null);
      if (key === null) continue;
      const owner = changed.has(key) ? changed.get(key) : this.owners.get(key);
      if (owner != null && owner !== run_id)
        throw conflict(`The idempotency key of the run ${run_id} is that of another run.`);
      changed.set(key, run_id);
    }
    return changed;
  }
}

/** Rows are sorted by `by`, with gaps. */
function page(rows: readonly EventRow[], by: 'seq' | 'version', from: number, limit: number) {
  const start = rows.length === 0 ? 0 : firstFrom(rows, by, from);
  return rows.slice(start, start + Math.max(0, limit));
}

function firstFrom(rows: readonly EventRow[], by: 'seq' | 'version', from: number): number {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((rows[middle]?.[by] ?? 0) < from) low = middle + 1;
    else high = middle;
  }
  return low;
}

function idsOf(lines: readonly Line[]): string[] {
  return lines.map((line) => line.run_id);
}

/** These runs as their owners take turns, each after its runs that are busy. */
export function inTurns(
  waiting: Line[],
  busy: readonly Line[],
  ownerOf: (line: Line) => string,
): Line[] {
  const before = new Map<string, number>();
  const count = (line: Line) => {
    const place = (before.get(ownerOf(line)) ?? 0) + 1;
    before.set(ownerOf(line), place);
    return place;
  };
  for (const line of busy) count(line);
  return waiting
    .map((line) => ({ line, place: count(line) }))
    .sort((a, b) => a.place - b.place || a.line.accepted_seq - b.line.accepted_seq)
    .map(({ line }) => line);
}

/** The token before the line break, or the home. */
export function askerOf({ client }: Line): string {
  return client?.includes('\n') === true ? (client.split('\n')[0] ?? '') : '';
}
