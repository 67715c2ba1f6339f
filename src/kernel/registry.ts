import type { AnyMachineSnapshot, AnyStateMachine } from 'xstate';
import { daemonDeadlines, daemonMachine } from '../../machines/daemon.ts';
import { engineDeadlines, engineMachine } from '../../machines/engine.ts';
import type { Deadline } from '../../machines/events.ts';
import { providerDeadlines, providerMachine } from '../../machines/provider.ts';
import { pullDeadlines, pullMachine } from '../../machines/pull.ts';
import { runMachine } from '../../machines/run.ts';
import { runDeadlines } from '../../machines/run-next.ts';

/** What the kernel has to know of a machine: how it is stepped, and what comes true by itself. */
export interface MachineDefinition {
  machine: AnyStateMachine;
  deadlines(snapshot: AnyMachineSnapshot): Deadline[];
}

const kind = (
  machine: AnyStateMachine,
  deadlines: (snapshot: never) => Deadline[],
): MachineDefinition => ({
  machine,
  deadlines: deadlines as MachineDefinition['deadlines'],
});

const kinds = {
  daemon: kind(daemonMachine, daemonDeadlines),
  engine: kind(engineMachine, engineDeadlines),
  provider: kind(providerMachine, providerDeadlines),
  pull: kind(pullMachine, pullDeadlines),
  run: kind(runMachine, runDeadlines),
};

export const RUN_PREFIX = 'run_';

/** The machine that folds a stream, by the stream's name: `daemon:<boot>`, `engine:<boot>`, `provider:<id>:<boot>`, `pull:<id>:<boot>`, `run_<id>`. */
export function definitionOf(stream: string): MachineDefinition {
  if (stream.startsWith(RUN_PREFIX)) return kinds.run;
  const name = stream.slice(0, stream.indexOf(':'));
  if (name === 'daemon' || name === 'engine' || name === 'provider' || name === 'pull')
    return kinds[name];
  throw new Error(`no machine folds the stream ${stream}`);
}
