import type { Paths } from '../../../home/paths.ts';
import type { Results } from '../../../transport/control/protocol.ts';
import { askHome } from '../../terminal/connect/home.ts';
import type { Context } from '../../terminal/context.ts';
import { note, print, printJson } from '../../terminal/print/output.ts';

export type ApplyResult = Results['config.apply'];

/** Has the daemon read the configuration file again. */
export async function run({ paths, json }: Context): Promise<number> {
  const applied = await applyNow(paths);
  if (json) printJson({ daemon_running: applied !== null, ...(applied ?? NOTHING) });
  else if (applied === null) note('The daemon is not running. Its next start uses the file.');
  else if (applied.applied.length + applied.after_restart.length === 0)
    note('The daemon runs with this file already.');
  else print(appliedText(applied));
  return 0;
}

export const NOTHING: ApplyResult = { applied: [], after_restart: [] };

/** Null without a daemon. Throws config_invalid. */
export async function applyNow(paths: Paths): Promise<ApplyResult | null> {
  return (await askHome(paths, 'config.apply')).answer;
}

/** The settings that take effect at once, and those that wait for a restart. */
export function appliedText({ applied, after_restart }: ApplyResult): string {
  return [
    ...(applied.length === 0 ? [] : [`In effect now: ${applied.join(', ')}.`]),
    ...(after_restart.length === 0
      ? []
      : [`In effect after svc restart: ${after_restart.join(', ')}.`]),
  ].join('\n');
}
