import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { isMainThread } from 'node:worker_threads';

/**
 * Loaded into a daemon before its own code: once there is a pipe `held` in its home, the store's thread waits after its next commit for
 * somebody who writes there, in a call of the system that nothing but the end of the process breaks off.
 */
if (!isMainThread) {
  const pipe = join(process.env.SVC_HOME ?? '', 'held');
  const write = fs.writeSync as (...args: unknown[]) => number;
  fs.writeSync = ((...args: unknown[]) => {
    if (fs.existsSync(pipe)) fs.closeSync(fs.openSync(pipe, 'r'));
    return write(...args);
  }) as typeof fs.writeSync;
  syncBuiltinESMExports();
}
