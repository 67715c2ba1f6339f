import { run } from '../health/health.ts';
import { program } from '../program.ts';

/** The bundle of `svc health`: see docs/decisions/0014-the-program-is-bundled.md. */
export const main = (argv: readonly string[]): Promise<void> =>
  program(argv, { health: async () => ({ run }) });
