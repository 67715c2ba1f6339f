import { ownsAny } from '../kernel/store/files/ownership.ts';

/**
 * Ends the process. An exit waits for the thread of the store, for as long as the disk does; then
 * only a kill ends it.
 */
export function exit(): void {
  if (ownsAny()) exitAtOnce();
  process.exit();
}

/** Kills the process. Log lines are already written by now. */
export function exitAtOnce(): void {
  process.kill(process.pid, 'SIGKILL');
}

/** Reports the outcome of the start to `svc start`, if it started this process. */
export function notifyParent(message: object): void {
  if (process.send === undefined || !process.connected) return;
  process.send(message, () => process.connected && process.disconnect());
}
