import { isTerminalEvent } from '../../../machines/run/context.ts';
import type { StoredEvent } from '../../../src/kernel/store/port.ts';
import { Stepwise } from '../../fleet/fleet-nodes.ts';
import { manualClock } from '../../helpers/manual-clock.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import { MemoryFleet } from '../../helpers/store/memory-fleet.ts';
import { turns } from '../../helpers/turns.ts';
import { LEASE_MS, LOAD } from '../../kernel/store/fleet-nodes.ts';
import type { Random } from '../random.ts';
import { Link, linked } from './link.ts';
import type { FleetMutant } from './mutants.ts';

/** What no fault may break, by name. */
export class Violation extends Error {
  readonly invariant: string;

  constructor(invariant: string, message: string) {
    super(message);
    this.invariant = invariant;
  }
}

type Booted = Awaited<ReturnType<typeof bootRuntime>>;

/** One life of a node: one boot. */
interface Life extends Booted {
  boot_id: string;
  provider: Stepwise;
  link: Link;
  isRenewing: boolean;
  isLost: boolean;
  renewed_at: number;
  /** Since when it is ready and can be reached. */
  whole_since: number;
}

const NAMES = ['a', 'b', 'c'];
/** The file of their model. */
const FILES: Record<string, string> = { a: 'one', b: 'two', c: 'one' };
const STEP_MS = 1000;
const RENEW_MS = 3000;
/** Moves until everything that was accepted has ended. */
const ROUNDS_MAX = 200;

/**
 * Three nodes with real kernels on one log, behind links that fail. It owns what clients know.
 *
 * 1. A run that was acknowledged ends once, whatever happens to its nodes.
 * 2. A boot writes nothing after it was taken over, and loses its lease only by that.
 * 3. The streams have no gap, and nothing follows the end of a run.
 * 4. A key has one run.
 * 5. An answer is given up for its model file only if no node that could be reached had it.
 */
export class FleetWorld {
  readonly clock = manualClock(1_000_000);
  readonly log = new MemoryFleet(() => this.clock.now());
  readonly lives = new Map<string, Life | null>();
  private readonly random: Random;
  private readonly mutant: FleetMutant | null;
  /** Milliseconds in which the clock of a node stood. */
  private readonly stood = new Map<string, number>();
  /** Where the log was when a boot lost its lease. */
  private readonly fenced = new Map<string, number>();
  private readonly acknowledged = new Set<string>();
  private readonly runOfKey = new Map<string, string>();
  private booted = 0;
  private asked = 0;
  private found: Violation | null = null;

  constructor(random: Random, mutant: FleetMutant | null) {
    this.random = random;
    this.mutant = mutant;
    mutant?.apply?.(this);
  }

  /** The time by the clock of a node. */
  ownTime(name: string): number {
    return this.clock.now() - (this.stood.get(name) ?? 0);
  }

  /** What happened, so that a quiet simulation is noticed. */
  get counts() {
    return { accepted: this.acknowledged.size, fenced: this.fenced.size };
  }

  async start(): Promise<void> {
    for (const name of NAMES) await this.boot(name);
  }

  async step(): Promise<void> {
    const { random } = this;
    const name = random.pick(NAMES);
    const life = this.lives.get(name) ?? null;
    const what = random.below(20);
    if (what < 8) this.ask(name);
    else if (what < 12) await life?.provider.one();
    else if (what === 12) life?.link.cut();
    else if (what < 15) this.heal(life);
    else if (what === 15) await this.kill(name);
    else await this.pass(random.between(1, 6) * STEP_MS);
    await this.settle();
  }

  /** All links are whole again, and each answer comes. Throws Violation. */
  async end(): Promise<void> {
    for (let round = 0; ; round += 1) {
      for (const life of this.lives.values()) this.heal(life);
      await this.pass(STEP_MS);
      for (const life of this.lives.values()) await life?.provider.one();
      await this.settle();
      const events = await this.events();
      this.check(events);
      const open = this.unfinished(events);
      if (open === null) break;
      if (round > ROUNDS_MAX) throw new Violation('ends', `${open} was accepted and never ended`);
    }
    for (const name of NAMES) await this.kill(name);
  }

  private heal(life: Life | null): void {
    if (life?.link.isCut !== true) return;
    life.link.heal();
    life.whole_since = this.clock.now();
  }

  private ask(name: string): void {
    const life = this.lives.get(name) ?? null;
    if (life === null) return;
    this.asked += 1;
    const key = this.random.onceIn(3) ? `key ${this.random.below(4)}` : null;
    const prompt = key ?? `prompt ${this.asked}`;
    const client = this.random.pick(['one', 'two']);
    const input = { prompt, client, ...(key === null ? {} : { idempotency_key: key }) };
    life.runtime.runs.start(input, 'sim').then(
      ({ id }) => {
        this.acknowledged.add(id);
        if (key === null) return;
        const before = this.runOfKey.get(key) ?? id;
        this.runOfKey.set(key, before);
        if (before !== id) this.broken('key', `${key} has the runs ${before} and ${id}`);
      },
      // The client may ask again.
      () => {},
    );
  }

  private async pass(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += STEP_MS) {
      for (const [name, life] of this.lives)
        if (life?.link.isCut) this.stood.set(name, (this.stood.get(name) ?? 0) + STEP_MS);
      this.clock.advance(STEP_MS);
      for (const life of this.lives.values()) this.renew(life);
      await this.settle();
    }
  }

  private renew(life: Life | null): void {
    if (life === null || life.isRenewing || life.link.isCut) return;
    if (this.clock.now() < life.renewed_at + RENEW_MS) return;
    life.isRenewing = true;
    const { fleet } = life.store as ReturnType<MemoryFleet['store']>;
    fleet.renew(LOAD).then(
      (answer) => {
        life.isRenewing = false;
        life.renewed_at = this.clock.now();
        if (answer === 'lost') life.isLost = true;
      },
      () => {
        life.isLost = true;
      },
    );
  }

  /** Boots that have ended begin again, as the daemon does. */
  private async settle(): Promise<void> {
    await turns(12);
    for (const name of NAMES) {
      const life = this.lives.get(name) ?? null;
      const fatal = life?.fatal[0];
      if (life !== null && (life.isLost || fatal !== undefined)) {
        if (!this.fenced.has(life.boot_id))
          this.broken(
            'fence',
            `${life.boot_id} lost its lease, and no node took it over: ${fatal}`,
          );
        await this.kill(name);
      } else if (life === null && this.random.onceIn(3)) await this.boot(name);
    }
    if (this.found !== null) throw this.found;
  }

  private async boot(name: string): Promise<void> {
    this.booted += 1;
    const boot_id = `boot_${name}_${this.booted}`;
    const link = new Link();
    const real = this.log.store();
    const store = linked(this.mutant?.store?.(real, this, name) ?? real, link, (taken) => {
      for (const { boot_id } of taken) this.fenced.set(boot_id, this.log.log.lastSeq);
    });
    const file = FILES[name] ?? '';
    const provider = new Stepwise(name, file);
    provider.onForeign = () => this.givesUp(name);
    const booted = await bootRuntime({
      local: provider.port,
      clock: this.clock,
      boot_id,
      node: { id: name, store, file },
      limits: { local_runs: 1 },
    }).catch((error: { code?: string }) => {
      // The boot before has its lease still.
      if (error.code === 'daemon_already_running') return null;
      throw error;
    });
    if (booted === null) return;
    this.stood.delete(name);
    this.lives.set(name, {
      ...booted,
      boot_id,
      provider,
      link,
      isRenewing: false,
      isLost: false,
      renewed_at: this.clock.now(),
      whole_since: this.clock.now(),
    });
  }

  private async kill(name: string): Promise<void> {
    const life = this.lives.get(name) ?? null;
    if (life === null) return;
    this.lives.set(name, null);
    life.link.cut();
    life.kernel.close();
    life.fleet?.close();
    await turns(4);
  }

  /** A node is asked to go on with an answer of another file. */
  private givesUp(name: string): void {
    const known = this.clock.now() - LEASE_MS;
    for (const [other, life] of this.lives)
      if (life !== null && FILES[other] !== FILES[name] && !life.link.isCut)
        if (life.whole_since <= known && !life.isLost)
          this.broken('file', `${name} gives up an answer that ${other} could go on with`);
  }

  private broken(invariant: string, message: string): void {
    this.found ??= new Violation(invariant, message);
  }

  private async events(): Promise<StoredEvent[]> {
    const store = this.log.store();
    await store.open();
    return store.readAll(1, Number.MAX_SAFE_INTEGER);
  }

  private unfinished(events: readonly StoredEvent[]): string | null {
    const ended = new Set(
      events.filter(({ type }) => isTerminalEvent(type)).map(({ stream }) => stream),
    );
    return [...this.acknowledged].find((run_id) => !ended.has(run_id)) ?? null;
  }

  private check(events: readonly StoredEvent[]): void {
    const versions = new Map<string, number>();
    const ended = new Set<string>();
    for (const [index, { seq, stream, version, type, boot_id }] of events.entries()) {
      if (seq !== index + 1) this.broken('order', `${seq} is at the place ${index + 1}`);
      if (version !== (versions.get(stream) ?? 0) + 1)
        this.broken('order', `${stream} has the version ${version}`);
      versions.set(stream, version);
      if (ended.has(stream)) this.broken('ends once', `${stream} goes on with ${type}`);
      if (isTerminalEvent(type)) ended.add(stream);
      if (seq > (this.fenced.get(boot_id) ?? Number.POSITIVE_INFINITY))
        this.broken('fence', `${boot_id} wrote ${type} of ${stream} after its lease was lost`);
    }
    for (const run_id of this.acknowledged)
      if (!versions.has(run_id)) this.broken('ends', `${run_id} was acknowledged, and is lost`);
    if (this.found !== null) throw this.found;
  }
}
