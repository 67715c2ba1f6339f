import type { SvcError } from '../../../errors.ts';
import type { Context } from '../../terminal/context.ts';
import { note, printJson, say } from '../../terminal/print/output.ts';
import { serviceManager } from './managers.ts';

/** Removes the definition also where the service manager cannot be queried. */
export async function run({ json }: Context): Promise<number> {
  const manager = serviceManager();
  const { installed } = await manager.status();
  const problem = installed ? await manager.remove() : null;
  if (json)
    printJson({ manager: manager.name, removed: installed, problem: problem?.message ?? null });
  else {
    say(
      installed
        ? `svc is no longer a service of ${manager.name}. Its home is untouched.`
        : `svc is not a service of ${manager.name}.`,
    );
    if (problem !== null) noteRefused(problem);
  }
  return 0;
}

/** The file is gone, but a daemon of the service may be alive. */
export function noteRefused({ message }: SvcError): void {
  note(`${message}\nA daemon that the service started may still run. To end it: svc stop`);
}
