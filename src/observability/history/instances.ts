import { machines } from '../../../machines/all.ts';
import { describe } from '../../../machines/describe.ts';
import { mermaid } from '../../../machines/diagrams/mermaid.ts';
import { statePath } from '../../../machines/step.ts';
import { isoTime } from '../../async/clock.ts';
import type { InstanceRecord, MachinesRecord } from '../../contract/contract.ts';
import type { Instance } from '../../kernel/instance.ts';

/** The living machines with their states, with at most `runs_max` runs. */
export function instancesOf(
  instances: Iterable<Instance>,
  runs_max: number,
  now: number,
): InstanceRecord[] {
  let runs = 0;
  const living = [...instances].filter(
    (instance) =>
      instance.snapshot.status === 'active' &&
      (instance.machine.id !== 'run' || ++runs <= runs_max),
  );
  return living.map((instance) => instanceOf(instance, now));
}

function instanceOf(instance: Instance, now: number): InstanceRecord {
  const { stream, machine, snapshot, path, since, version, seq } = instance;
  // Before the log opens, the state is not recorded yet.
  const state_path = version === 0 ? statePath(snapshot) : path;
  const state = state_path.split('.')[0] ?? '';
  return {
    stream,
    machine: machine.id,
    state,
    state_path,
    since: isoTime(version === 0 ? now : since),
    version,
    seq,
  };
}

/** Every machine with its instances. */
export function machinesRecord(instances: readonly InstanceRecord[], seq: number): MachinesRecord {
  return {
    machines: shapes().map((shape) => ({
      ...shape,
      instances: instances.filter(({ machine }) => machine === shape.name),
    })),
    seq,
  };
}

/** Made once, since it does not change. */
function shapes() {
  known ??= machines.map((machine) => ({ ...describe(machine), mermaid: mermaid(machine) }));
  return known;
}

let known: (ReturnType<typeof describe> & { mermaid: string })[] | null = null;
