import { daemonModel } from './daemon.ts';
import { engineModel } from './engine.ts';
import type { Model } from './model.ts';
import { providerModel } from './provider.ts';
import { pullModel } from './pull.ts';
import { runModel } from './run.ts';

/** Every machine, at the bounds within which its graph is walked whole. */
export const models: readonly Model[] = [
  daemonModel(3),
  runModel({ max_attempts: 3, outputs: 2 }),
  providerModel({ kind: 'local', failure_limit: 3 }),
  providerModel({ kind: 'cloud', failure_limit: 3 }),
  engineModel(),
  pullModel(3),
];
