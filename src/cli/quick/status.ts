import { run } from '../daemon/status.ts';
import { program } from '../program.ts';

/** The bundle of `svc status`: see docs/decisions/0014-the-program-is-bundled.md. */
export const main = (argv: readonly string[]): Promise<void> =>
  program(argv, { status: async () => ({ run }) });
