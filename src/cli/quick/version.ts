import { program } from '../program.ts';
import { run } from '../version.ts';

/** The bundle of `svc version`: see docs/decisions/0014-the-program-is-bundled.md. */
export const main = (argv: readonly string[]): Promise<void> =>
  program(argv, { version: async () => ({ run }) });
