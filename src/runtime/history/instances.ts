import { machines } from '../../../machines/all.ts';
import { describe } from '../../../machines/describe.ts';
import { mermaid } from '../../../machines/diagrams/mermaid.ts';
import { statePath } from '../../../machines/step.ts';
import type { Instance as LiveInstance } from '../../kernel/instance.ts';
import { time } from '../../kernel/run-record.ts';
import type { Instance, MachinesRecord } from './contract.ts';

/** The machines that live, and where they stand. Of runs at most `runs_max`. */
export function instancesOf(
  instances: Iterable<LiveInstance>,
  runs_max: number,
  now: number,
): Instance[] {
  let runs = 0;
  const living = [...instances].filter(
    (instance) =>
      instance.snapshot.status === 'active' &&
      (instance.definition.machine.id !== 'run' || ++runs <= runs_max),
  );
  return living.map((instance) => instanceOf(instance, now));
}

function instanceOf(instance: LiveInstance, now: number): Instance {
  const { stream, definition, snapshot, path, since, version, seq } = instance;
  // Before the log is open a state shows that is not recorded yet.
  const state_path = version === 0 ? statePath(snapshot) : path;
  const state = state_path.split('.')[0] ?? '';
  return {
    stream,
    machine: definition.machine.id,
    state,
    state_path,
    since: time(version === 0 ? now : since),
    version,
    seq,
  };
}

/** Every machine, with those of the instances that are of its kind. */
export function machinesRecord(instances: readonly Instance[], seq: number): MachinesRecord {
  return {
    machines: shapes().map((shape) => ({
      ...shape,
      instances: instances.filter(({ machine }) => machine === shape.name),
    })),
    seq,
  };
}

/** What never changes is made once. */
function shapes() {
  known ??= machines.map((machine) => ({ ...describe(machine), mermaid: mermaid(machine) }));
  return known;
}

let known: (ReturnType<typeof describe> & { mermaid: string })[] | null = null;
