import type { AnyStateMachine } from 'xstate';
import { conversationMachine } from '../../machines/conversation.ts';
import { daemonMachine } from '../../machines/daemon/chart.ts';
import { engineMachine } from '../../machines/engine.ts';
import { leaseMachine } from '../../machines/lease.ts';
import { mcpServerMachine } from '../../machines/mcp-server.ts';
import { providerMachine } from '../../machines/provider/chart.ts';
import { pullMachine } from '../../machines/pull.ts';
import { runMachine } from '../../machines/run/chart.ts';
import { SvcError } from '../errors.ts';
import { programVersion } from '../home/version.ts';
import { isRun, type MachineName } from './stream.ts';

export const machineBy: Record<MachineName, AnyStateMachine> = {
  conversation: conversationMachine,
  daemon: daemonMachine,
  engine: engineMachine,
  lease: leaseMachine,
  mcp: mcpServerMachine,
  provider: providerMachine,
  pull: pullMachine,
  run: runMachine,
};

/** The machine that folds a stream, from the form of its key. */
export function machineOf(stream: string): AnyStateMachine {
  if (isRun(stream)) return machineBy.run;
  const name = stream.slice(0, stream.indexOf(':'));
  if (name !== 'run' && Object.hasOwn(machineBy, name)) return machineBy[name as MachineName];
  throw unknownKind(stream);
}

/** Only a newer version can have recorded this. Leaving it out would change history. */
export function unknownKind(name: string): SvcError {
  return new SvcError(
    'store_foreign',
    `The event log has "${name}", which svc ${programVersion()} does not know: a newer version ` +
      'wrote it.',
    { hint: 'Install that version again, or choose another home with SVC_HOME.' },
  );
}
