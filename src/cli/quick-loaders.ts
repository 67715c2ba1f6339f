import type { Loaders } from './loaders.ts';

/** The commands that scripts and probes call often; `src/main.ts` names them too. */
export const quickLoaders = {
  version: () => import('./version.ts'),
  status: () => import('./daemon/status.ts'),
  health: () => import('./health/health.ts'),
} satisfies Partial<Loaders>;
