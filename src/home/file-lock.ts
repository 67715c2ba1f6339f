/**
 * Takes the lock `file` for this process, alone among all processes. Returns the function that
 * releases it; null while another one holds it.
 *
 * The lock is SQLite's, on an empty database. The operating system releases it when its process
 * dies. A pid file would need a takeover, which is a race. The file stays: removing it would let
 * two in.
 */
export async function tryLock(file: string): Promise<(() => void) | null> {
  const { default: Database } = await import('better-sqlite3');
  const database = new Database(file, { timeout: 0 });
  try {
    database.exec('BEGIN EXCLUSIVE');
    return () => database.close();
  } catch (error) {
    database.close();
    if ((error as { code?: string }).code === 'SQLITE_BUSY') return null;
    throw error;
  }
}
