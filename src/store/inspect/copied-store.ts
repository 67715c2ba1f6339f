import { copyFileSync, existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { SvcError } from '../../errors.ts';
import { type Limits, limitSpecs } from '../../limits.ts';
import type { EventStore, Project } from '../port.ts';
import type { OpenOptions } from '../sqlite/open.ts';
import { createSqliteStore } from '../sqlite/sqlite.ts';
import { type Copy, withCopy } from './copied-log.ts';

export interface CopiedStoreOptions {
  database: string;
  highWater: string;
  limits: OpenOptions['limits'] & Pick<Limits, 'inspect_bytes' | 'close_ms'>;
  /** Folds damaged rows, as the daemon does. */
  project: Project;
}

/**
 * Opens a copy of the log of a stopped daemon as a store. It answers as the daemon would.
 * `close` deletes the copy. Null if there is no log. Throws what `open` throws, and
 * daemon_already_running if a process has the log open.
 */
export async function openCopiedStore(options: CopiedStoreOptions): Promise<EventStore | null> {
  return withCopy(options, (copy) => openCopy(copy, options));
}

async function openCopy(
  { folder, copy, remove }: Copy,
  { database, highWater, limits, project }: CopiedStoreOptions,
): Promise<EventStore> {
  const mark = join(folder, 'events.high-water');
  const store = createSqliteStore({
    database: copy,
    highWater: mark,
    project,
    limits: { ...limits, reserve_bytes: limitSpecs.reserve_bytes.min },
  });
  try {
    if (existsSync(highWater)) copyFileSync(highWater, mark);
    await store.open();
  } catch (error) {
    remove();
    throw named(error, folder, dirname(database));
  }
  return { ...store, close: () => store.close().finally(remove) };
}

/** The error with the folder of the log instead of that of its copy. */
function named(thrown: unknown, copy: string, original: string): unknown {
  if (!(thrown instanceof SvcError)) return thrown;
  const { code, cause, details } = thrown;
  return new SvcError(code, thrown.message.replaceAll(copy, original), {
    cause,
    hint: thrown.hint.replaceAll(copy, original),
    ...(details === undefined ? {} : { details }),
  });
}
