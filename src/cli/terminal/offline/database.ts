import { type Config, loadConfig } from '../../../config/config.ts';
import { isPostgres } from '../../../config/store/address.ts';
import { storePassword } from '../../../config/store/password.ts';
import { hasCode, SvcError } from '../../../errors.ts';

/** How to reach the database that the configuration names. Throws config_invalid. */
export function databaseOf(config: Config) {
  return { address: config.store, password: storePassword(config), limits: config.limits };
}

/**
 * The database of the log. Null: the log is a file of this machine. An unreadable configuration
 * must not block reading the file.
 */
export function sharedDatabase(file: string): ReturnType<typeof databaseOf> | null {
  const config = configOrNull(file);
  return config !== null && isPostgres(config.store) ? databaseOf(config) : null;
}

function configOrNull(file: string): Config | null {
  try {
    return loadConfig(file);
  } catch {
    return null;
  }
}

/** A command that queries the store itself: no daemon continues the request. */
export async function withoutDaemon<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!hasCode(error, 'store_stalled') || error.hint !== new SvcError('store_stalled').hint)
      throw error;
    const hint = 'Check the database and the network. Then run the command again.';
    throw new SvcError('store_stalled', error.message, { cause: error.cause, hint });
  }
}
