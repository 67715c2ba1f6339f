import { type Metric, Registry } from 'prom-client';
import type { Family } from './tally.ts';

/** The text of the families, with every label escaped. */
export function formatFamilies(families: readonly Family[]): Promise<string> {
  const registry = new Registry();
  for (const family of families) {
    const { name } = family;
    registry.registerMetric({ name, get: async () => family } as unknown as Metric);
  }
  return registry.metrics();
}
