import { type DaemonSnapshot, daemonMachine } from '../../machines/daemon/chart.ts';
import type { LastBoot } from '../../machines/daemon/context.ts';
import { countOf } from '../../machines/daemon/counts.ts';
import type { RunSnapshot } from '../../machines/run/chart.ts';
import { isTerminalEvent, type RunCreated } from '../../machines/run/context.ts';
import { can, init, isIn, step } from '../../machines/step.ts';
import { machineOf } from '../../src/kernel/registry.ts';
import { type StoredEvent, toEvent } from '../../src/kernel/store/port.ts';
import { isRun } from '../../src/kernel/stream.ts';
import { checkDeadline } from './deadlines.ts';
import { checkOutput } from './outputs.ts';
import type { Settings } from './settings.ts';
import { checkStart, checkTurn } from './starts.ts';
import type { Tools } from './tools.ts';
import { hold } from './violation.ts';

/**
 * Folds the log a second time as it grows, and checks its invariants.
 *
 * 1. Positions and versions have no gaps, and each machine accepts its events.
 * 2. A run has one terminal event, and it is the last. Events of an attempt carry the current
 *    one.
 * 3. A key belongs to one run at a time.
 */

export interface RunView {
  id: string;
  alias: string;
  snapshot: RunSnapshot;
  created: RunCreated;
  accepted_seq: number;
  version: number;
  ended: boolean;
  /** Its provider works on it, or is stopping it. */
  working: boolean;
  /** Uptime of the daemon when it was accepted. */
  awake_at: number;
  token_ids: number[];
  /** Time of the last start or output in this boot. */
  active_at: number;
  events: StoredEvent[];
}

export class Oracle {
  last_seq = 0;
  readonly runs = new Map<string, RunView>();
  /** Unfinished, in the order of acceptance. */
  readonly unfinished = new Map<string, RunView>();
  readonly log: StoredEvent[] = [];
  daemon: DaemonSnapshot | null = null;
  boot_id = '';
  /** Uptime of earlier boots, and when this one began. */
  awake_before = 0;
  life_start = 0;
  readonly settings: Settings;
  /** Checks the events of calls. */
  private readonly tools: Pick<Tools, 'check'>;
  daemonVersion = 0;
  /** Position of the last event that the daemon follows from. */
  daemonSeq = 0;
  /** The previous daemon, as it was left. */
  private before: DaemonSnapshot | null = null;
  private readonly keys = new Map<string, RunView>();
  /** The leftovers of earlier boots are settled. */
  isRecovered = false;
  private stop: { unsettled: number; finished: number; ended: number } | null = null;

  constructor(settings: Settings, tools: Pick<Tools, 'check'>) {
    this.settings = settings;
    this.tools = tools;
  }

  /** An event is durable. Throws Violation. */
  ingest(event: StoredEvent): void {
    hold(
      'no-gaps',
      event.seq === this.last_seq + 1,
      () => `the event ${event.seq} (${event.type}) follows ${this.last_seq}`,
    );
    this.last_seq = event.seq;
    this.log.push(event);
    const run = this.runs.get(event.stream);
    if (run !== undefined) this.ingestRun(run, event);
    else if (isRun(event.stream)) this.accept(event, toEvent(event) as RunCreated);
    if (isRun(event.stream)) this.count(event);
    else if (event.stream.startsWith('daemon:')) this.ingestDaemon(event);
  }

  newLife(number: number, start: number): void {
    this.boot_id = `boot_${number}`;
    this.life_start = start;
  }

  endLife(now: number): void {
    this.awake_before += now - this.life_start;
    this.before = this.daemon ?? this.before;
    this.daemon = null;
    this.isRecovered = false;
  }

  awake(at: number): number {
    return this.awake_before + at - this.life_start;
  }

  aliasOf(id: string): string {
    return this.runs.get(id)?.alias ?? (id.startsWith('daemon:') ? 'daemon' : 'a new run');
  }

  private ingestDaemon(event: StoredEvent): void {
    const accepted = toEvent(event);
    if (event.version === 1) {
      this.daemonVersion = 0;
      this.daemon = init(machineOf(event.stream), accepted).snapshot as unknown as DaemonSnapshot;
    } else {
      const before = this.daemon as DaemonSnapshot;
      hold(
        'fold',
        can(before, accepted),
        () => `${event.type} is not accepted by the daemon at ${event.seq}`,
      );
      this.daemon = step(machineOf(event.stream), before, accepted)
        .snapshot as unknown as DaemonSnapshot;
    }
    if (event.type === 'daemon.run_admitted') this.checkRoom();
    this.daemonVersion += 1;
    this.daemonSeq = event.seq;
    hold(
      'no-gaps',
      event.version === this.daemonVersion,
      () => `version ${event.version} of the daemon follows ${this.daemonVersion - 1}`,
    );
    this.checkStop(event);
    if (event.type === 'daemon.store_opened') this.checkLastBoot(event);
  }

  /** Counts a run at the daemon that accepted it. */
  private count({ stream: run_id, boot_id, type, at, seq }: StoredEvent): void {
    const accepted_by = this.runs.get(run_id)?.events[0]?.boot_id;
    if (this.daemon === null || accepted_by !== boot_id) return;
    const event = countOf(this.daemon, { type, run_id, at });
    if (event === null) return;
    hold(
      'fold',
      can(this.daemon, event),
      () => `${event.type} of ${this.aliasOf(run_id)} is not accepted by the daemon`,
    );
    this.daemon = step(daemonMachine, this.daemon, event).snapshot;
    this.daemonSeq = seq;
    if (type === 'run.accepted') this.checkRoom();
  }

  private checkRoom(): void {
    const { unsettled = 0, capacity = 0 } = this.daemon?.context ?? {};
    hold(
      'limits',
      unsettled <= capacity,
      () => `${unsettled} runs are admitted, ${capacity} may be`,
    );
  }

  /** A boot reports the end of the previous boot as its machine has it. */
  private checkLastBoot({ data }: StoredEvent): void {
    const told = (data.last_boot as LastBoot | null)?.ending ?? null;
    const found =
      this.before === null
        ? null
        : isIn(this.before, 'stopped')
          ? 'clean'
          : isIn(this.before, 'failed')
            ? 'failed'
            : 'killed';
    hold(
      'last-boot',
      told === found,
      () => `the last boot is told to be ${told}, and was ${found}`,
    );
  }

  /** The daemon reports its stop as it happened. */
  private checkStop({ type, data }: StoredEvent): void {
    if (type === 'daemon.boot_started') [this.stop, this.isRecovered] = [null, false];
    if (type === 'daemon.runs_recovered') this.isRecovered = true;
    if (type === 'daemon.stop_requested')
      this.stop ??= { unsettled: this.unfinished.size, finished: 0, ended: 0 };
    if (type !== 'daemon.stopped' || this.stop === null) return;
    const { finished, ended } = this.stop;
    const told = {
      finished: Number(data.finished),
      ended: Number(data.ended),
      handed_over: Number(data.handed_over),
    };
    // The report omits ends that were not yet durable.
    const late = finished + ended - told.finished - told.ended;
    const moving = [...this.unfinished.values()].filter(({ snapshot }) =>
      isIn(snapshot, 'cancelling'),
    ).length;
    const beside = Math.abs(told.handed_over - this.unfinished.size);
    const holds = told.finished <= finished && told.ended <= ended && beside <= late + moving;
    hold(
      'stop-report',
      holds,
      () =>
        `told ${JSON.stringify(told)}, found ${finished} finished, ${ended} ended, ${this.unfinished.size} left`,
    );
  }

  private ingestRun(run: RunView, event: StoredEvent): void {
    const accepted = toEvent(event);
    hold(
      'no-gaps',
      event.version === run.version + 1,
      () => `version ${event.version} of ${run.alias} follows ${run.version}`,
    );
    hold('one-end', !run.ended, () => `${event.type} of ${run.alias} comes after its end`);
    const { attempt } = event.data;
    const present = run.snapshot.context.attempt + (event.type === 'run.started' ? 1 : 0);
    hold(
      'stale-attempt',
      attempt === undefined || attempt === present,
      () => `${event.type} of attempt ${attempt} in attempt ${present} of ${run.alias}`,
    );
    checkDeadline(this, run, event);
    this.tools.check(run.alias, run.events, event);
    if (event.type === 'run.started') checkStart(this, run);
    const before = run.snapshot;
    run.snapshot = step(machineOf(run.id), before, accepted).snapshot as unknown as RunSnapshot;
    hold(
      'fold',
      run.snapshot.context !== before.context || run.snapshot.value !== before.value,
      () => `${event.type} is not accepted by ${run.alias} at ${event.seq}`,
    );
    run.version = event.version;
    run.events.push(event);
    run.working = event.type === 'run.started' || (run.working && !hasNoPlace(run.snapshot));
    checkOutput(run, event);
    if (event.type === 'run.started' && before.context.attempt === 0) checkTurn(this, run);
    if (!isTerminalEvent(event.type)) return;
    run.ended = true;
    this.unfinished.delete(run.id);
    if (this.stop !== null) this.stop[event.type === 'run.interrupted' ? 'ended' : 'finished'] += 1;
  }

  private accept(event: StoredEvent, created: RunCreated): void {
    const { idempotency_key: key, run_id } = created;
    hold(
      'no-gaps',
      event.version === 1 && event.type === 'run.accepted',
      () => `a run begins with ${event.type}, version ${event.version}`,
    );
    const snapshot = init(machineOf(run_id), created).snapshot as unknown as RunSnapshot;
    const alias = `r${this.runs.size + 1}`;
    const run: RunView = {
      id: run_id,
      alias,
      snapshot,
      created,
      accepted_seq: event.seq,
      version: 1,
      ended: false,
      working: false,
      awake_at: this.awake(event.at),
      token_ids: [],
      active_at: event.at,
      events: [event],
    };
    this.runs.set(run_id, run);
    this.unfinished.set(run_id, run);
    if (key === null) return;
    const other = this.keys.get(key);
    hold(
      'one-run-a-key',
      other === undefined || other.snapshot.context.withdrawn,
      () => `${other?.alias} and ${alias} have the key ${key}`,
    );
    this.keys.set(key, run);
  }
}

/** It waits in the queue, for its tools, or for a person. */
export function hasNoPlace(snapshot: RunSnapshot): boolean {
  return snapshot.hasTag('waiting') || snapshot.hasTag('calling') || snapshot.hasTag('paused');
}
