import { hasCode } from '../../errors.ts';

/** For `catch`: what to do instead when no daemon runs; every other error stays an error. */
export function whenNotRunning<T>(instead: () => T): (thrown: unknown) => T {
  return (thrown) => {
    if (hasCode(thrown, 'daemon_not_running')) return instead();
    throw thrown;
  };
}
