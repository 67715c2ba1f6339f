import type { Context } from '../context.ts';
import { print, printJson } from '../print/output.ts';
import { serviceManager } from './platform.ts';

export async function run({ json }: Context): Promise<number> {
  const manager = serviceManager();
  const { installed } = await manager.status();
  if (installed) await manager.remove();
  if (json) printJson({ manager: manager.name, removed: installed });
  else
    print(
      installed
        ? `svc is no longer a service of ${manager.name}. Its home is untouched.`
        : `svc is no service of ${manager.name}.`,
    );
  return 0;
}
