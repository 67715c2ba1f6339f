import { type Loaders, program } from './program.ts';

/**
 * The commands that scripts and probes call over and over. The build makes one file of all that they import: finding and
 * reading some twenty files takes longer than their own work. They import nothing that the other commands share state with.
 */
const loaders: Loaders = {
  version: () => import('./version.ts'),
  status: () => import('./daemon/status.ts'),
  health: () => import('./health/health.ts'),
};

export function main(argv: readonly string[]): Promise<void> {
  return program(argv, loaders);
}
