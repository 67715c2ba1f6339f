import type { Context } from '../../terminal/context.ts';
import { note, printJson, say } from '../../terminal/print/output.ts';
import { serviceManager } from './managers.ts';

/** Exit code of a service that is not installed, as for a daemon that does not run. */
const NOT_INSTALLED = 3;

export async function run({ json }: Context): Promise<number> {
  const manager = serviceManager();
  const { installed, state, problem } = await manager.status();
  const { name, file } = manager;
  if (json) printJson({ manager: name, file, installed, state, problem: problem?.message ?? null });
  else if (!installed) say('svc is not a service here. Install it with: svc service install');
  else {
    const known = problem === null ? state : 'installed, state unknown';
    say(`${known}, a service of ${name}${file ? `\n${file}` : ''}`);
    if (problem !== null) note(`${name} cannot be queried: ${problem.message}\n${problem.hint}`);
  }
  return installed ? 0 : NOT_INSTALLED;
}
