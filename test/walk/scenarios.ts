import type { MachineName, Walked } from './edges.ts';
import { conversationScenarios } from './walk-conversation.ts';
import { daemonScenarios } from './walk-daemon.ts';
import { engineScenarios } from './walk-engine.ts';
import { providerScenarios } from './walk-provider.ts';
import { pullScenarios } from './walk-pull.ts';
import { runScenarios } from './walk-run.ts';

const scenarios: Record<MachineName, readonly (() => Promise<Walked>)[]> = {
  daemon: daemonScenarios,
  run: runScenarios,
  provider: providerScenarios,
  engine: engineScenarios,
  pull: pullScenarios,
  conversation: conversationScenarios,
  // No scenario has a fleet: each edge has an exemption.
  lease: [],
};

/** The scenarios in which a real daemon walks every edge of this machine. */
export function scenariosOf(name: MachineName): readonly (() => Promise<Walked>)[] {
  return scenarios[name];
}
