import type { MachineName, Walked } from './edges.ts';
import { conversationScenarios } from './walk-conversation.ts';
import { daemonScenarios } from './walk-daemon.ts';
import { engineScenarios } from './walk-engine.ts';
import { providerScenarios } from './walk-provider.ts';
import { pullScenarios } from './walk-pull.ts';
import { runScenarios } from './walk-run.ts';

type Scenario = () => Promise<Walked>;

const scenarios: Record<MachineName, readonly Scenario[]> = {
  daemon: daemonScenarios,
  run: runScenarios,
  provider: providerScenarios,
  engine: engineScenarios,
  pull: pullScenarios,
  mcp: [],
  conversation: conversationScenarios,
  // No scenario has a fleet: each edge has an exemption.
  lease: [],
};

/** The scenarios in which a real daemon walks every edge of this machine. */
export function scenariosOf(name: MachineName): readonly Scenario[] {
  return scenarios[name];
}

/**
 * The few that `npm test` walks too: every named state through every interface, the boots after a
 * crash, and a provider that fails. `npm run walk` walks all.
 */
export const IN_TESTS = ['wholeBoot', 'fullAfterCrash', 'killed', 'oneTooMany'];

export function scenariosInTests(): readonly Scenario[] {
  return Object.values(scenarios)
    .flat()
    .filter(({ name }) => IN_TESTS.includes(name));
}
