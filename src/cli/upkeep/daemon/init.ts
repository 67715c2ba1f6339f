import { existsSync } from 'node:fs';
import { warn } from '../../terminal/print/output.ts';

/**
 * Process 1 of a container must reap every process that has lost its parent. Node.js reaps its own
 * children alone, and tool servers leave others. Therefore a shell becomes process 1, and this
 * program starts again as its child. The shell passes signals on, and ends with the same code.
 */
export function leaveProcessOne(): void {
  if (process.pid !== 1) return;
  if (typeof process.execve !== 'function' || !existsSync(SHELL)) {
    warn('svc is process 1, and does not reap orphaned processes. Give it an init: --init');
    return;
  }
  const words = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  process.execve(SHELL, [SHELL, '-c', REAP, 'svc', ...words], process.env);
}

const SHELL = '/bin/sh';

/** Ctrl-C of a terminal reaches the whole group by itself. */
const REAP = `"$@" <&0 & daemon=$!
trap 'signal=1; kill -TERM $daemon' TERM
trap 'signal=1; kill -HUP $daemon' HUP
trap 'signal=1; [ -t 0 ] || kill -INT $daemon' INT
while :; do
  signal=; wait $daemon; code=$?
  [ -n "$signal" ] && [ $code -gt 128 ] || exit $code
done`;
