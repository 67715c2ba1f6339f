import { run } from '../logs/logs.ts';
import { program } from '../program.ts';

/** The bundle of `svc logs`: see docs/decisions/0014-the-program-is-bundled.md. */
export const main = (argv: readonly string[]): Promise<void> =>
  program(argv, { logs: async () => ({ run }) });
