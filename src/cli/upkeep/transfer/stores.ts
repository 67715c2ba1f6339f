import { mkdirSync } from 'node:fs';
import { type Config, loadConfig } from '../../../config/config.ts';
import { databaseName, isPostgres } from '../../../config/store/address.ts';
import { SvcError } from '../../../errors.ts';
import { loadExport, loadImport } from '../../../fleet/index.ts';
import { tryLock } from '../../../home/file-lock.ts';
import type { Paths } from '../../../home/paths.ts';
import type { LogSource, LogTarget } from '../../../kernel/store/transfer/port.ts';
import { databaseOf } from '../../terminal/offline/database.ts';

/** Opens the log of the store that is configured. Null: it has no log. */
export async function openSource(paths: Paths): Promise<LogSource | null> {
  const config = loadConfig(paths.config);
  if (isPostgres(config.store)) {
    const { openPostgresSource } = await loadExport();
    return openPostgresSource(databaseOf(config));
  }
  const { openSqliteSource } = await import('../../../kernel/store/sqlite/export.ts');
  return openSqliteSource(filesOf(paths, config));
}

/** Opens the store that is configured, for a log. `name` is that of the store in messages. */
export async function openTarget(paths: Paths): Promise<{ target: LogTarget; name: string }> {
  const config = loadConfig(paths.config);
  if (isPostgres(config.store)) {
    const { openPostgresTarget } = await loadImport();
    return {
      target: await openPostgresTarget(databaseOf(config)),
      name: databaseName(config.store),
    };
  }
  const { openSqliteTarget } = await import('../../../kernel/store/sqlite/import.ts');
  // A daemon that starts meanwhile waits, and then finds the whole log.
  mkdirSync(paths.data, { recursive: true, mode: 0o700 });
  const release = await tryLock(paths.lock);
  if (release === null)
    throw new SvcError('daemon_already_running', `A process owns the home ${paths.home}.`);
  try {
    const target = openSqliteTarget(filesOf(paths, config));
    return {
      target: { ...target, close: () => target.close().finally(release) },
      name: paths.database,
    };
  } catch (error) {
    release();
    throw error;
  }
}

function filesOf({ database, highWater }: Paths, { limits }: Config) {
  return { database, highWater, limits };
}
