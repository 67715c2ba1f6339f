import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { isMainThread } from 'node:worker_threads';

/**
 * A preload for a daemon. It blocks the store thread after a commit when the home has a pipe
 * `held`. The thread waits for a writer of the pipe, in a system call. Only the end of the process
 * ends that call.
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
