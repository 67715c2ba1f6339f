import { program } from '../program.ts';
import { run } from '../run/run.ts';

/** The bundle of `svc run`: see docs/decisions/0014-the-program-is-bundled.md. */
export const main = (argv: readonly string[]): Promise<void> =>
  program(argv, { run: async () => ({ run }) });
