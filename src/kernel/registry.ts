import type { AnyMachineSnapshot, AnyStateMachine } from 'xstate';
import { conversationDeadlines, conversationMachine } from '../../machines/conversation.ts';
import { daemonDeadlines, daemonMachine } from '../../machines/daemon.ts';
import { engineDeadlines, engineMachine } from '../../machines/engine.ts';
import type { Deadline } from '../../machines/events.ts';
import { leaseDeadlines, leaseMachine } from '../../machines/lease.ts';
import { providerDeadlines, providerMachine } from '../../machines/provider.ts';
import { pullDeadlines, pullMachine } from '../../machines/pull.ts';
import { runMachine } from '../../machines/run.ts';
import { runDeadlines } from '../../machines/run-next.ts';
import { isRun, type MachineName } from './stream.ts';

/** What the kernel knows of a machine: how to step it, and its deadlines. */
export interface MachineDefinition {
  name: MachineName;
  machine: AnyStateMachine;
  deadlines(snapshot: AnyMachineSnapshot): Deadline[];
}

const definitions: Record<MachineName, MachineDefinition> = {
  conversation: {
    name: 'conversation',
    machine: conversationMachine,
    deadlines: conversationDeadlines,
  },
  daemon: { name: 'daemon', machine: daemonMachine, deadlines: daemonDeadlines },
  engine: { name: 'engine', machine: engineMachine, deadlines: engineDeadlines },
  lease: { name: 'lease', machine: leaseMachine, deadlines: leaseDeadlines },
  provider: { name: 'provider', machine: providerMachine, deadlines: providerDeadlines },
  pull: { name: 'pull', machine: pullMachine, deadlines: pullDeadlines },
  run: { name: 'run', machine: runMachine, deadlines: runDeadlines },
};

/** The machine that folds a stream, from the form of its key. */
export function definitionOf(stream: string): MachineDefinition {
  if (isRun(stream)) return definitions.run;
  const name = stream.slice(0, stream.indexOf(':'));
  if (name !== 'run' && Object.hasOwn(definitions, name)) return definitions[name as MachineName];
  throw new Error(`no machine folds the stream ${stream}`);
}
