import { isTerminalEvent } from '../../machines/run/context.ts';
import type { EventRecord } from '../../src/contract/contract.ts';
import { SvcError } from '../../src/errors.ts';
import { eventData } from '../../src/transport/stream/event-forms.ts';
import { eventsOf } from '../helpers/events.ts';
import { allowed, hold } from './violation.ts';
import type { World } from './world.ts';

/** Follows one run across boots. After a cut it continues after the last event it has seen. */
export class Follower {
  readonly id: string;
  attached = false;
  /** It has seen the end of the run. */
  done = false;
  private readonly world: World;
  private from_seq: number;
  private last: EventRecord | null = null;
  /** The answer as it saw it; null if it did not follow from the beginning. */
  private text: string | null;
  private abort = new AbortController();
  private readonly isSlow: boolean;

  constructor(world: World, id: string, from_seq: number) {
    this.world = world;
    this.id = id;
    this.from_seq = from_seq;
    this.text = from_seq === 0 ? '' : null;
    this.isSlow = world.random.onceIn(4);
  }

  attach(): void {
    const { life } = this.world;
    this.attached = true;
    this.abort = new AbortController();
    const { signal } = this.abort;
    this.world.note(() => `follow ${this.world.oracle.aliasOf(this.id)} from ${this.from_seq}`);
    this.read(signal).then(
      () => this.world.guard(() => life === this.world.life && this.ended(signal)),
      (error: unknown) => this.world.guard(() => life === this.world.life && this.failed(error)),
    );
  }

  leave(): void {
    this.attached = false;
    this.abort.abort();
  }

  private async read(signal: AbortSignal): Promise<void> {
    const { life } = this.world;
    for await (const event of eventsOf(
      life.runtime.runs.follow(this.id, { form: eventData, from_seq: this.from_seq, signal }),
    )) {
      if (life !== this.world.life || signal !== this.abort.signal) return;
      this.world.guard(() => this.see(event));
      if (this.isSlow) await this.world.sleep();
    }
  }

  private see(event: EventRecord): void {
    const { oracle } = this.world;
    const run = oracle.runs.get(this.id);
    const stored = oracle.log[event.seq - 1];
    const same =
      stored?.stream === event.stream &&
      stored.version === event.version &&
      stored.type === event.type &&
      stored.data.text === event.data.text;
    hold(
      'follower',
      same,
      () => `${event.type} was seen at ${event.seq}, where the log has ${stored?.type}`,
    );
    const before =
      this.last?.version ?? (run?.events.find(({ seq }) => seq >= this.from_seq)?.version ?? 0) - 1;
    hold(
      'follower',
      event.version === before + 1,
      () => `version ${event.version} of ${run?.alias} was seen after ${before}`,
    );
    this.last = event;
    this.from_seq = event.seq + 1;
    if (this.text === null) return;
    if (event.type === 'run.started' && event.data.resumes !== true) this.text = '';
    if (event.type === 'run.output_appended' && event.data.kind === undefined)
      this.text += event.data.text as string;
    if (event.type === 'run.turn_completed') this.text = '';
  }

  /** It was read to the end. */
  private ended(signal: AbortSignal): void {
    if (signal.aborted) return;
    this.attached = false;
    this.done = true;
    const run = this.world.oracle.runs.get(this.id);
    const over = this.last === null ? run?.ended === true : isTerminalEvent(this.last.type);
    hold(
      'follower',
      over,
      () => `${run?.alias} was followed to ${this.last?.type}, and that is no end`,
    );
    if (this.text !== null)
      hold(
        'follower',
        this.text === run?.snapshot.context.output,
        () => `${run?.alias} was seen as ${this.text}`,
      );
  }

  private failed(error: unknown): void {
    this.attached = false;
    if (!(error instanceof SvcError)) throw error;
    const { life } = this.world;
    allowed(
      error,
      life.kernel.closed
        ? ['daemon_stopping', 'run_interrupted', 'store_failed', 'store_stalled', 'not_ready']
        : ['not_ready', 'store_failed', 'store_stalled'],
    );
  }
}
