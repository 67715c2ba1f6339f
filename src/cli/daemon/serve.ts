import type { LogLevel, Settings } from '../../config.ts';
import { asSvcError } from '../../errors.ts';
import type { Context, Flags } from '../context.ts';
import { choiceFlag, textFlag } from '../flag-values.ts';

const LEVELS: readonly LogLevel[] = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'];

/** The daemon itself: in the foreground, or in the background where `svc start` started it. */
export async function run({ paths, flags }: Context): Promise<number> {
  const background = flags.background === true;
  try {
    const { serveDaemon } = await import('../../daemon.ts');
    return await serveDaemon({ paths, flags: settingFlags(flags), background });
  } catch (thrown) {
    if (background) tellParent({ type: 'failed', error: asSvcError(thrown).body() });
    throw thrown;
  }
}

/** The flags that set a setting of the daemon. */
export function settingFlags(flags: Flags): Partial<Settings> {
  const given = { http: textFlag(flags, 'http'), grpc: textFlag(flags, 'grpc'), log_level: choiceFlag(flags, 'log-level', LEVELS) };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

function tellParent(message: object): void {
  if (process.send !== undefined && process.connected) process.send(message, () => process.connected && process.disconnect());
}
