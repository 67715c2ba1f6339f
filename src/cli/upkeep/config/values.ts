import { type Config, loadConfig } from '../../../config/config.ts';
import type { Source } from '../../../config/layers.ts';
import { settingPath } from '../../../config/setting-keys.ts';
import { asSvcError } from '../../../errors.ts';
import { askDaemon } from '../../terminal/connect/ask-daemon.ts';
import type { Context } from '../../terminal/context.ts';
import { warn } from '../../terminal/print/output.ts';
import { notInForce } from '../daemon/not-in-force.ts';

/** The configuration of the daemon, or of its next start, with the reason for that. */
export async function activeConfig(
  paths: Context['paths'],
): Promise<{ config: Config; why: string | null }> {
  try {
    const config = await askDaemon(paths, 'config', {}, { timeout_ms: ANSWER_MS });
    return { config: config as Config, why: null };
  } catch (error) {
    const { code } = asSvcError(error);
    const why = { daemon_not_running: 'is not running', timed_out: 'does not answer' }[
      code as string
    ];
    if (why === undefined) throw error;
    return { config: loadConfig(paths.config), why };
  }
}

/** The value of a dotted key, and where it comes from. */
export function valueAt(config: Config, key: string): { value: unknown; source: Source } {
  const path = settingPath(key);
  const value = path.reduce<unknown>(
    (inside, name) =>
      Object.hasOwn(Object(inside), name) ? (inside as Record<string, unknown>)[name] : undefined,
    config,
  );
  const { sources } = config;
  return { value, source: sources[key] ?? sources[path[0] ?? ''] ?? 'default' };
}

/** Prints on stderr the settings of the files that are not in effect. */
export async function noteNotInForce(paths: Context['paths']): Promise<void> {
  const status = await askDaemon(paths, 'status', {}, { timeout_ms: ANSWER_MS });
  for (const text of notInForce(status)) warn(text);
}

const ANSWER_MS = 3_000;
