import type { Effect } from '../../machines/effects.ts';
import { SvcError } from '../../src/errors.ts';
import { stream } from '../../src/kernel/stream.ts';
import type { Usable } from '../../src/runtime/providers/admission.ts';
import { Client } from './client.ts';
import { SimClock } from './clock.ts';
import { Disk } from './disk.ts';
import { Effects } from './effects.ts';
import { Fairness } from './fairness.ts';
import { Life } from './life.ts';
import type { Mutant } from './mutants.ts';
import { Oracle } from './oracle.ts';
import { hashOf, mix, Random } from './random.ts';
import { drawSettings, type Settings } from './settings.ts';
import { Stats } from './stats.ts';
import type { Stream } from './stream.ts';
import { Tools } from './tools.ts';
import { Upstream } from './upstream.ts';
import { Violation } from './violation.ts';

/** One simulation. Its seed alone decides each next step. */
export class World {
  readonly random: Random;
  /** Only for the jitter of waits, so that it changes no other draw. */
  private readonly waits: Random;
  readonly settings: Settings;
  readonly disk: Disk;
  readonly tools = new Tools(this);
  readonly oracle: Oracle;
  readonly effects: Effects;
  readonly upstreams: ReadonlyMap<string, Upstream>;
  readonly clients: Client[];
  readonly stats = new Stats();
  readonly mutant: Mutant | null;
  /** One line for each step; null without a reader. */
  readonly trace: string[] | null;
  life: Life;
  fairness: Fairness;
  lives = 0;
  hash = 0;
  violation: Violation | null = null;
  /** The faults are over: everything must end. */
  isQuiet = false;
  quiet_since = 0;
  /** Streams of the previous boot, without a reader. */
  ghosts: Stream[] = [];
  /** Queue positions that were reported, by run. */
  readonly places = new Map<string, number | null>();
  private readonly pending = new Set<{ what: string; lost?: () => void }>();
  private sleepers: (() => void)[] = [];

  constructor(seed: number, options: { mutant?: Mutant | null; traced?: boolean } = {}) {
    this.random = new Random(seed);
    this.waits = new Random(seed + 1);
    this.mutant = options.mutant ?? null;
    this.trace = options.traced === true ? [] : null;
    this.settings = drawSettings(this.random);
    this.oracle = new Oracle(this.settings, this.tools);
    this.effects = new Effects(this);
    this.disk = new Disk({
      onDurable: (event) =>
        this.guard(() => {
          this.oracle.ingest(event);
          this.hash = mix(mix(this.hash, hashOf(event.type)), event.version);
          this.note(
            () =>
              `  ${event.seq} ${this.oracle.aliasOf(event.stream)} ${event.type} ${brief(event.data)}`,
          );
        }),
      onConflict: (error) => {
        this.violation ??= new Violation(
          error.message.includes('idempotency key') ? 'one-run-a-key' : 'no-gaps',
          error.message,
        );
      },
      losesLast: this.mutant?.losesLast === true,
    });
    this.upstreams = new Map(['local', 'near', 'far'].map((id) => [id, this.createUpstream(id)]));
    this.clients = Array.from(
      { length: this.settings.clients },
      (_, index) => new Client(this, `c${index + 1}`),
    );
    this.life = this.bear(10 ** 12);
    this.fairness = new Fairness(this.life);
  }

  /** Ends all faults. */
  calm(): void {
    this.note(() => 'quiet');
    this.isQuiet = true;
    this.quiet_since = this.oracle.awake(this.life.clock.now());
    this.disk.full = false;
    this.wakeAll();
  }

  /** Starts another boot. The wall clock may have been set meanwhile. */
  rebirth(): void {
    const now = this.life.clock.now();
    this.oracle.endLife(now);
    for (const call of this.pending) call.lost?.();
    this.pending.clear();
    this.sleepers = [];
    this.places.clear();
    this.effects.forget();
    this.tools.forget();
    this.ghosts = [...this.upstreams.values()].flatMap((upstream) => [...upstream.open]);
    for (const upstream of this.upstreams.values()) upstream.open.clear();
    for (const client of this.clients)
      for (const follower of client.followers) follower.attached = false;
    this.life = this.bear(now + (this.isQuiet ? 1000 : this.jump()));
  }

  /** A client's call. Its result is checked, unless the boot ends first. */
  call<T>(
    what: string,
    made: Promise<T>,
    then: { ok(value: T): void; error(error: SvcError): void; lost?: () => void },
  ): void {
    const { life } = this;
    const call = { what, ...(then.lost === undefined ? {} : { lost: then.lost }) };
    this.pending.add(call);
    this.note(() => what);
    const settle = (check: () => void) => {
      if (life !== this.life || !this.pending.delete(call)) return;
      this.guard(check);
    };
    made.then(
      (value) => settle(() => then.ok(value)),
      (error: unknown) =>
        settle(() => {
          this.note(() => `  ${what}: ${error instanceof SvcError ? error.code : String(error)}`);
          if (!(error instanceof SvcError)) throw error;
          then.error(error);
        }),
    );
  }

  get unansweredCalls(): string[] {
    return [...this.pending].map(({ what }) => what);
  }

  watch(id: string): void {
    const { signal } = new AbortController();
    this.life.runtime.queue.watch(id, (position) => this.places.set(id, position), signal);
  }

  sleep(): Promise<void> {
    if (this.isQuiet) return Promise.resolve();
    return new Promise((resolve) => this.sleepers.push(resolve));
  }

  get asleep(): number {
    return this.sleepers.length;
  }

  wakeAll(): void {
    const { sleepers } = this;
    this.sleepers = [];
    for (const wake of sleepers) wake();
  }

  /** The first broken invariant ends the simulation. */
  guard(check: () => void): void {
    try {
      check();
    } catch (error) {
      this.violation ??=
        error instanceof Violation
          ? error
          : new Violation(
              'exception',
              error instanceof Error ? (error.stack ?? error.message) : String(error),
            );
    }
  }

  note(line: () => string): void {
    if (this.trace === null) return;
    this.trace.push(line());
  }

  private bear(start: number): Life {
    this.lives += 1;
    this.oracle.newLife(this.lives, start);
    const life: Life = new Life({
      number: this.lives,
      clock: new SimClock(start),
      settings: this.settings,
      upstreams: this.upstreams,
      servers: this.tools.servers(),
      places: this.mutant?.places?.(this.settings.places) ?? this.settings.places,
      connect: (alive) =>
        this.mutant?.store?.(this.disk.connect(alive)) ?? this.disk.connect(alive),
      onEffect: (effect: Effect, id: string, perform: () => void) => {
        if (life.ending === null && this.mutant?.drops?.(effect.type, this.lives) !== true)
          this.guard(() => this.effects.asked(effect, id, perform));
      },
      enter: async (_provider, { request }) => this.enter(request),
      random: () => this.waits.next() / 2 ** 32,
      onOpened: (last_seq) => this.guard(() => this.effects.opened(last_seq)),
      createKernel: this.mutant?.createKernel,
    });
    this.life = life;
    this.fairness = new Fairness(life);
    this.note(() => `life ${this.lives} begins at ${start}`);
    life.start();
    return life;
  }

  /** A provider may be known to be down. */
  private enter(run_id: string): Usable {
    const { passedOverIn } = this.settings.faults;
    if (this.isQuiet || passedOverIn === 0 || !this.random.onceIn(passedOverIn))
      return { ok: true };
    this.stats.count('attempts that were not let in');
    const attempt = this.life.kernel.tail(stream.run(run_id))?.context.attempt ?? 0;
    this.effects.refuse({ run_id, attempt });
    return { ok: false, code: 'provider_unavailable', reason: 'It is down.', until: null };
  }

  /** The wall clock after a downtime. */
  private jump(): number {
    const { random } = this;
    const hour = 3_600_000;
    const jump = random.pick([
      0,
      random.below(10_000),
      random.below(10_000),
      hour,
      -hour,
      8760 * hour,
      -8760 * hour,
    ]);
    if (Math.abs(jump) >= hour) this.stats.count('clock jumps');
    return jump;
  }

  private createUpstream(id: string): Upstream {
    return new Upstream({
      id,
      resumable: id === 'local',
      random: this.random,
      troubleIn: () => (this.isQuiet ? 0 : this.settings.faults.troubleIn),
      onAsked: (request) => {
        this.note(
          () =>
            `  ${id} is asked by ${this.oracle.aliasOf(request.run_id)}, attempt ${request.attempt}, after ${request.resume?.token_ids.length ?? 0} tokens`,
        );
        this.guard(() => this.effects.reached(request));
      },
      shift: this.mutant?.shift ?? 0,
    });
  }
}

/** Identifies an event in the trace. */
const SHOWN = [
  'attempt',
  'resumes',
  'text',
  'token_ids',
  'downtime_ms',
  'deadline',
  'client',
  'idempotency_key',
  'forced',
  'queued',
  'suspended',
  'finished',
  'handed_over',
  'ended',
];

function brief(data: Record<string, unknown>): string {
  return SHOWN.flatMap((name) =>
    data[name] == null ? [] : [`${name} ${JSON.stringify(data[name])}`],
  ).join(', ');
}
