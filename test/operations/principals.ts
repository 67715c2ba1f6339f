import type { RunInput, RunRecord } from '../../src/contract/contract.ts';
import type { Runtime } from '../../src/operations/port.ts';
import { HOME, type Principal, type Scope } from '../../src/runtime/principal/principal.ts';
import { waitFor } from '../helpers/wait.ts';

/** The holder of a named token. */
export function holder(
  name: string,
  scope: Scope = 'run',
  more: Partial<Principal> = {},
): Principal {
  return { ...HOME, name, scope, ...more };
}

/** A run that has ended. */
export async function said(runtime: Runtime, input: RunInput): Promise<RunRecord> {
  const { id } = await runtime.runs.start(input, 'test');
  await waitFor('the run ends', async () => (await runtime.runs.head(id)).finished);
  return runtime.runs.get(id);
}
