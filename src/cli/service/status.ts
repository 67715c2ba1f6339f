import type { Context } from '../context.ts';
import { print, printJson } from '../print/output.ts';
import { serviceManager } from './platform.ts';

/** Exit code of a service that is not installed, as for a daemon that does not run. */
const NOT_INSTALLED = 3;

export async function run({ json }: Context): Promise<number> {
  const manager = serviceManager();
  const { installed, state } = await manager.status();
  if (json) printJson({ manager: manager.name, file: manager.file, installed, state });
  else if (installed)
    print(`${state}, a service of ${manager.name}${manager.file ? `\n${manager.file}` : ''}`);
  else print('svc is no service here. Install it with: svc service install');
  return installed ? 0 : NOT_INSTALLED;
}
