import type { MachineName, Walked } from './edges.ts';
import { daemonLives } from './walk-daemon.ts';
import { engineLives } from './walk-engine.ts';
import { providerLives } from './walk-provider.ts';
import { pullLives } from './walk-pull.ts';
import { runLives } from './walk-run.ts';

const lives: Record<MachineName, readonly (() => Promise<Walked>)[]> = {
  daemon: daemonLives,
  run: runLives,
  provider: providerLives,
  engine: engineLives,
  pull: pullLives,
};

/** The lives in which every edge of this machine is walked by a real daemon. */
export function livesOf(name: MachineName): readonly (() => Promise<Walked>)[] {
  return lives[name];
}
