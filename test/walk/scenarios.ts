import type { Walked } from './edges.ts';
import { conversationScenarios } from './walk-conversation.ts';
import { daemonScenarios } from './walk-daemon.ts';
import { engineScenarios } from './walk-engine.ts';
import { mcpScenarios } from './walk-mcp.ts';
import { providerScenarios } from './walk-provider.ts';
import { pullScenarios } from './walk-pull.ts';
import { runScenarios } from './walk-run.ts';
import { toolScenarios } from './walk-tools.ts';

/** The scenarios in which real daemons walk every edge of every machine. */
export const scenarios: readonly (() => Promise<Walked>)[] = [
  ...daemonScenarios,
  ...runScenarios,
  ...toolScenarios,
  ...providerScenarios,
  ...engineScenarios,
  ...pullScenarios,
  ...mcpScenarios,
  ...conversationScenarios,
];

/**
 * The few that `npm test` walks too: every named state through every interface, the boots after a
 * crash, a provider that fails, and calls of tools. `npm run walk` walks all.
 */
export const IN_TESTS = [
  'wholeBoot',
  'fullAfterCrash',
  'killed',
  'oneTooMany',
  'decidedCalls',
  'killedCalls',
];

export function scenariosInTests(): readonly (() => Promise<Walked>)[] {
  return scenarios.filter(({ name }) => IN_TESTS.includes(name));
}
