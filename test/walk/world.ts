import * as assert from 'uvu/assert';
import type { DaemonSnapshot } from '../../machines/daemon/chart.ts';
import type { NewEvent } from '../../machines/events.ts';
import { isTerminalEvent, type Recovery, type RunEvent } from '../../machines/run/context.ts';
import { stateName, statePath } from '../../machines/step.ts';
import type { Parts } from '../../src/daemon/parts.ts';
import { releaseAll } from '../../src/daemon/stop.ts';
import type { EventStore } from '../../src/kernel/store/port.ts';
import { type RunKey, stream } from '../../src/kernel/stream.ts';
import { LogFold } from '../helpers/fold-log.ts';
import { manualClock } from '../helpers/manual-clock.ts';
import { bootRuntime } from '../helpers/runtime.ts';
import { createMemoryStore } from '../helpers/store/memory.ts';
import { turns } from '../helpers/turns.ts';
import { Walked } from './edges.ts';
import { type Move, SteppedProvider } from './stepped-provider.ts';
import { essence } from './walk-kernel.ts';

export type Action =
  | { do: 'run'; provider: 'local' | 'up'; recovery: Recovery; timeout_ms: number }
  | { do: Move; at: number }
  | { do: 'cancel'; at: number }
  | { do: 'wait'; ms: number }
  | { do: 'stop'; mode: 'drain' | 'force' }
  | { do: 'crash' }
  | { do: 'disk'; full: boolean }
  | { do: 'prune' }
  | { do: 'dig_in' }
  | { do: 'let_go' }
  | { do: 'stale'; at: number };

const LIMITS = {
  queue_runs: 3,
  provider_runs: 2,
  local_runs: 1,
  run_attempts: 2,
  run_losses: 2,
  first_output_ms: 1000,
  idle_ms: 1000,
  queue_ms: 2000,
  cancel_grace_ms: 500,
  drain_ms: 3000,
  close_ms: 2000,
};

/**
 * The runtime with its real parts, lived through actions from outside: the events come about by the
 * parts that propose them. After each action every state is the pure fold of the log, and health
 * says what the tags say.
 */
export class World {
  private readonly store = createMemoryStore();
  private readonly clock = manualClock(1_000_000);
  private readonly fold = new LogFold();
  private seen = 0;
  private readonly ids: string[] = [];
  private boots = 0;
  private current!: Awaited<ReturnType<typeof bootRuntime>>;
  private local!: SteppedProvider;
  private up!: SteppedProvider;
  private released = 0;
  /** Events that came late or twice, and were refused. */
  stale = 0;

  static async open(): Promise<World> {
    const world = new World();
    await world.boot();
    return world;
  }

  async act(action: Action): Promise<void> {
    if (stateName(this.daemon()) === 'stopped' || stateName(this.daemon()) === 'failed')
      await this.boot();
    await this.perform(action);
    await turns(6);
    await this.check();
  }

  /**
   * Ends the world and returns the walked edges. Every run has at most one end, and every ended run
   * has one.
   */
  async leave(): Promise<Walked> {
    const events = await this.store.readAll(1, 1_000_000);
    const walked = new Walked();
    walked.addLog(events);
    for (const id of this.ids) {
      const ends = events.filter(({ stream, type }) => stream === id && isTerminalEvent(type));
      assert.ok(ends.length <= 1, `${id} has ${ends.length} ends`);
      assert.is((await this.store.getRun(id))?.finished, ends.length === 1, id);
    }
    this.current.kernel.close();
    this.local.release();
    this.up.release();
    return walked;
  }

  private async perform(action: Action): Promise<void> {
    const { runtime, propose } = this.current;
    if (action.do === 'run') await this.start(action);
    else if (action.do === 'cancel')
      this.pick(action.at, (id) => void runtime.runs.cancel(id, 'test').catch(() => undefined));
    else if (action.do === 'wait') this.clock.advance(action.ms);
    else if (action.do === 'stop')
      await runtime
        .lifecycle({ type: 'stop_requested', mode: action.mode }, 'test')
        .catch(() => undefined);
    else if (action.do === 'crash') await this.boot();
    else if (action.do === 'disk')
      await propose({ type: action.full ? 'daemon.store_filled' : 'daemon.store_freed' });
    else if (action.do === 'prune')
      await propose({ type: 'daemon.history_pruned', runs: 1, events: 5 });
    else if (action.do === 'dig_in') this.local.stubborn = this.up.stubborn = true;
    else if (action.do === 'let_go') this.letGo();
    else if (action.do === 'stale') await this.proposeStale(action.at);
    else this.move(action);
    if (this.current.closed.length > this.released) this.release();
  }

  /** What the daemon does when its machine asks it to close. */
  private release(): void {
    this.released = this.current.closed.length;
    void releaseAll(this.current as unknown as Parts).catch(() => undefined);
  }

  private async start({
    provider,
    recovery,
    timeout_ms,
  }: Extract<Action, { do: 'run' }>): Promise<void> {
    const input = { prompt: 'x', provider, model: 'm', recovery, timeout_ms };
    const open =
      this.daemon().hasTag('ready') && this.daemon().context.unsettled < LIMITS.queue_runs;
    const run = await this.current.runtime.runs.start(input, 'test').catch(() => null);
    assert.is(run !== null, open, `a run in ${statePath(this.daemon())}`);
    if (run !== null) this.ids.push(run.id);
  }

  private move({ do: move, at }: Extract<Action, { do: Move }>): void {
    const answers = [...this.local.answers, ...this.up.answers];
    answers[at % Math.max(1, answers.length)]?.put(move);
  }

  private letGo(): void {
    this.local.release();
    this.up.release();
  }

  /** An event of an attempt before the present one, or of a state that is over, changes nothing. */
  private async proposeStale(at: number): Promise<void> {
    const { kernel } = this.current;
    await this.pick(at, async (id) => {
      const before = kernel.tail(id);
      const attempt = (before?.context.attempt ?? 0) - 1;
      const late: NewEvent<RunEvent>[] = [
        { type: 'run.output_appended', attempt, text: 'late', token_ids: [] },
        {
          type: 'run.completed',
          attempt,
          finish_reason: 'stop',
          usage: { input_tokens: 1, output_tokens: 1 },
        },
        { type: 'run.started', attempt: attempt + 1 },
      ];
      for (const event of late) {
        assert.not.ok(
          await kernel.tryAppend(id, event),
          `${event.type} of attempt ${attempt} in ${before === undefined ? 'the store' : statePath(before)}`,
        );
        this.stale += 1;
      }
      assert.is(kernel.tail(id), before);
    });
  }

  private pick<T>(at: number, use: (id: RunKey) => T): T | undefined {
    const id = this.ids.at(-1 - (at % Math.max(1, Math.min(4, this.ids.length))));
    return id === undefined ? undefined : use(stream.run(id));
  }

  /** Another boot on the same log. Nothing receives late effects of the boot before. */
  private async boot(): Promise<void> {
    if (this.boots > 0) {
      this.current.kernel.close();
      this.letGo();
    }
    this.boots += 1;
    this.released = 0;
    this.local = new SteppedProvider('local');
    this.up = new SteppedProvider('up');
    this.clock.advance(this.boots % 2 === 0 ? 60_000 : 0);
    this.current = await bootRuntime({
      local: this.local,
      remote: { up: { port: this.up, kind: 'local' } },
      store: this.ofBoot(this.boots),
      clock: this.clock,
      boot_id: `boot_${this.boots}`,
      limits: LIMITS,
    });
    await turns(6);
  }

  /** A dead process writes nothing. */
  private ofBoot(boot: number): EventStore {
    return {
      ...this.store,
      append: (commit) =>
        boot === this.boots ? this.store.append(commit) : new Promise(() => undefined),
    };
  }

  private daemon(): DaemonSnapshot {
    return this.current.kernel.snapshot(this.current.daemon) as DaemonSnapshot;
  }

  private async check(): Promise<void> {
    const { kernel, runtime, scheduler } = this.current;
    for (const event of await this.store.readAll(this.seen + 1, 100_000)) {
      this.fold.add(event);
      this.seen = event.seq;
    }
    for (const { stream, snapshot } of kernel.instances.values())
      assert.equal(essence(snapshot), essence(this.fold.states.get(stream)), stream);
    const daemon = this.daemon();
    const [live, ready] = [daemon.hasTag('live'), daemon.hasTag('ready')];
    assert.equal(runtime.probe(), { live, ready });
    assert.is(runtime.health().status === 'fail', !ready);
    assert.is(runtime.status().state_path, statePath(daemon));
    if (daemon.status === 'active')
      assert.is(
        daemon.context.unsettled,
        scheduler.queued + scheduler.running,
        'who is unsettled waits or is being answered',
      );
  }
}
