import { promptOf } from '../../src/contract/messages/parts.ts';
import { SvcError } from '../../src/errors.ts';
import { FleetClock } from '../../src/fleet/clock.ts';
import type { SharedStore } from '../../src/fleet/port.ts';
import { defaultLimits, type Limits } from '../../src/limits.ts';
import { type ManualClock, manualClock } from '../helpers/manual-clock.ts';
import { bootRuntime } from '../helpers/runtime.ts';
import { finish, gate, output, ScriptedProvider } from '../helpers/scripted-provider.ts';
import { MemoryFleet } from '../helpers/store/memory-fleet.ts';
import { turns } from '../helpers/turns.ts';
import { LOAD } from '../kernel/store/fleet-nodes.ts';

/** Turns until the nodes have heard of each other. */
export const settle = () => turns(40);

/** Several nodes on one log in memory, with one clock that the test moves. */
export class FleetOfNodes {
  readonly clock = manualClock(1_000_000);
  readonly log = new MemoryFleet(() => this.clock.now());
  readonly lease_ms = defaultLimits.lease_ms;
  private readonly living = new Set<FleetNode>();

  /**
   * `places`: active runs of the node. `models`: those it has; absent: each. `file`: what each of
   * its models is.
   */
  async boot(
    id: string,
    places: number,
    limits: Partial<Limits> = {},
    models?: readonly string[],
    file?: string,
    machine?: Machine,
  ): Promise<FleetNode> {
    const store = this.log.store();
    const { clock, time } = machine === undefined ? { clock: this.clock } : this.clockOf(machine);
    await store.open();
    await time?.follow(store.fleet);
    const provider = new Stepwise(id, file);
    const runtime = await bootRuntime({
      local: provider.port,
      clock,
      boot_id: `boot_${id}`,
      node: { id, store, models, file, ...(time === undefined ? {} : { time }) },
      limits: { local_runs: places, ...limits },
    });
    const node = { ...runtime, id, store, provider, time };
    this.living.add(node);
    await settle();
    return node;
  }

  private clockOf(machine: Machine): { clock: ManualClock; time: FleetClock } {
    const { clock } = this;
    const own = { now: () => clock.now() + machine.began_ms, after: clock.after };
    const wall = () => clock.now() + machine.wall_ms;
    const time = new FleetClock({ lease_ms: this.lease_ms, own, wall });
    const advance = (ms: number) => clock.advance(ms);
    const { after, jump, freeze } = clock;
    const onJump = (call: (ms: number) => void) => time.onJump(call);
    return { time, clock: { now: () => time.now(), after, advance, jump, freeze, onJump } };
  }

  /** The process is gone: it renews no lease and writes nothing more. */
  async kill(node: FleetNode): Promise<void> {
    this.living.delete(node);
    node.kernel.close();
    node.fleet?.close();
    await settle();
  }

  /** Lets time pass. Living nodes renew their leases. */
  async pass(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 1000) {
      for (const { store, time } of this.living) {
        await store.fleet.renew({ ...LOAD, clock: time?.report });
        await time?.follow(store.fleet);
      }
      this.clock.advance(Math.min(1000, ms - passed));
      await settle();
    }
  }

  close(): void {
    for (const { kernel, fleet } of this.living) {
      kernel.close();
      fleet?.close();
    }
  }
}

export type FleetNode = Omit<Awaited<ReturnType<typeof bootRuntime>>, 'store'> & {
  id: string;
  store: SharedStore;
  provider: Stepwise;
  time: FleetClock | undefined;
};

/** How far the clocks of a machine are ahead: the one that it began with, and the present one. */
export interface Machine {
  began_ms: number;
  wall_ms: number;
}

/** Says its node and waits, for each run. It goes on only behind output of its file. */
export class Stepwise {
  readonly port: ScriptedProvider;
  /** It is asked to go on behind output of another file. */
  onForeign = () => {};
  private readonly waiting: (() => void)[] = [];

  constructor(id: string, file?: string) {
    this.port = new ScriptedProvider('local', ({ resume }) => {
      if (resume !== null && resume.model_file !== (file ?? null)) {
        this.onForeign();
        return [new SvcError('model_changed')];
      }
      const { opened, open } = gate();
      this.waiting.push(open);
      const said = {
        ...output(`from ${id}`, 1),
        ...(file === undefined ? {} : { model_file: file }),
      };
      return [said, () => opened, finish()];
    });
  }

  /** Ends the oldest answer. */
  async one(): Promise<void> {
    this.waiting.shift()?.();
    await settle();
  }

  get asked(): string[] {
    return this.port.asked.map(({ request }) => promptOf(request));
  }
}
