import type { StatusView } from './find-status.ts';

/** Keys in one sentence. */
const KEYS_MAX = 5;

/** The settings of the file that are not in effect, as sentences. */
export function notInForce({
  not_in_force,
  config_problem: problem,
}: Pick<StatusView, 'not_in_force' | 'config_problem'>): string[] {
  const keys = not_in_force ?? [];
  if (problem != null) return [`The next start will fail: ${problem}`];
  if (keys.length === 0) return [];
  const more = keys.length > KEYS_MAX ? `, and ${keys.length - KEYS_MAX} more` : '';
  const named = `${keys.slice(0, KEYS_MAX).join(', ')}${more}`;
  return [
    `The configuration file was changed, and not all of it is in effect yet: ${named}. ` +
      'To apply it: svc config apply, or svc restart',
  ];
}
