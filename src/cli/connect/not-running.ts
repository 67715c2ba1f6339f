import { SvcError } from '../../errors.ts';

/** For `catch`: what to do instead when no daemon runs; every other error stays an error. */
export function whenNotRunning<T>(instead: () => T): (thrown: unknown) => T {
  return (thrown) => {
    if (thrown instanceof SvcError && thrown.code === 'daemon_not_running') return instead();
    throw thrown;
  };
}
